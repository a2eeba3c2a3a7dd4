// OFT: blocks of the input are rotated before the base layer.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct OftFields {
  explicit OftFields(const formats::Config& config);
  bool shares_block, uses_series;
  int64_t terms;
  bool is_constrained;  // `coft`: the rotations stay close to the identity, within `eps`.
  double eps;
  int64_t block_size, block_count;  // The values of a new adapter; one of them is 0. PEFT changes them to divisors of a layer's inputs.
};

// Throws UserError for layers that OFT does not support.
void need_oft_layer(const Layer& layer);

LayerAdapterPointer make_oft(at::Tensor upper, int64_t inputs, const OftFields& config);
LoadedAdapter load_oft(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_oft(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

}  // namespace tenon::adapters
