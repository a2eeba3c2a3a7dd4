// How a layer asks for adapters. A call pins its rows once; layers find them by their thread.
#pragma once

#include <tenon/models.h>

namespace tenon::models {

// While it lives, layers of a bank's model find these rows on this thread. Rows that are not given by the caller, but those of calls that
// are given none, do not count inside another scope of the same bank.
class PinScope {
 public:
  PinScope(const at::Tensor& rows, int64_t bank, bool is_given);
  ~PinScope();
  PinScope(const PinScope&) = delete;
  PinScope& operator=(const PinScope&) = delete;

 private:
  at::Tensor before_;
  int64_t bank_before_;
};

// What a layer is to compute with instead of x, where no gradients are recorded; x itself without a bank.
at::Tensor turn(const Seam& seam, const at::Tensor& x);
// What adapters make of the layer's result y; y without a bank. For layers whose inputs no method turns this is all.
at::Tensor finish(const Seam& seam, const at::Tensor& x, at::Tensor y);
// Whether there is a bank and gradients are recorded; then `train` is the whole layer.
bool trains(const Seam& seam);
at::Tensor train(const Seam& seam, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// What the layer computes for the rows of this call; `base` is the layer itself, with this weight and, if it is defined, this bias.
template <class F>
at::Tensor through_bank(const Seam& seam, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, F&& base) {
  if (trains(seam)) return train(seam, x, weight, bias);
  return finish(seam, x, base(turn(seam, x)));
}

}  // namespace tenon::models
