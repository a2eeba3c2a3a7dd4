// OFT: inputs are turned block by block before the base layer.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct OftConfig {
  explicit OftConfig(const formats::Config& config);
  bool shares_block, uses_series;
  int64_t terms;
};

PartPointer make_oft(at::Tensor upper, int64_t inputs, const OftConfig& config);
Loaded load_oft(const formats::Config& config, Files& files, const Chosen& chosen);

}  // namespace tenon::adapters
