// BOFT with one butterfly factor: inputs are turned block by block, outputs scaled.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct BoftConfig {
  explicit BoftConfig(const formats::Config& config);
  int64_t block_size, block_count;  // one of them is 0
};

PartPointer make_boft(at::Tensor blocks, at::Tensor scales);
Loaded load_boft(const formats::Config& config, Files& files, const Chosen& chosen);

}  // namespace tenon::adapters
