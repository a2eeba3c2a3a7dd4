// BOFT with one butterfly factor: blocks of the input are rotated, outputs are scaled.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct BoftFields {
  explicit BoftFields(const formats::Config& config);
  // Returns the number of blocks and their size. Throws UserError if the layer has no such blocks.
  std::pair<int64_t, int64_t> blocks(const Layer& layer) const;

  int64_t block_size, block_count;  // Exactly one of them is 0.
  double dropout;
};

LayerAdapterPointer make_boft(at::Tensor blocks, at::Tensor scales, double dropout);
LoadedAdapter load_boft(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_boft(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

}  // namespace tenon::adapters
