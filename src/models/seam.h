// How a layer asks for adapters. A call pins its rows once; layers find them by their thread.
#pragma once

#include <tenon/models.h>

namespace tenon::models {

// What the layer is to compute with instead of x; x itself without a bank.
at::Tensor turn(const Module& layer, const at::Tensor& x);
// What adapters make of the layer's result y; y without a bank. For layers whose inputs no method turns this is all.
at::Tensor finish(const Module& layer, const at::Tensor& x, at::Tensor y);

// What the layer computes for the rows of this call; `base` is the layer itself.
template <class F>
at::Tensor through_bank(const Module& layer, const at::Tensor& x, F&& base) {
  return finish(layer, x, base(turn(layer, x)));
}

}  // namespace tenon::models
