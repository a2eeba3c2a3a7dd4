// BOFT with one butterfly factor: blocks of the input are rotated, outputs are scaled.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct BoftConfig {
  explicit BoftConfig(const formats::Config& config);
  int64_t block_size, block_count;  // Exactly one of them is 0.
};

LayerAdapterPointer make_boft(at::Tensor blocks, at::Tensor scales);
LoadedAdapter load_boft(const formats::Config& config, Files& files, const ChosenLayers& chosen);

}  // namespace tenon::adapters
