// OFT: blocks of the input are rotated before the base layer.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct OftConfig {
  explicit OftConfig(const formats::Config& config);
  bool shares_block, uses_series;
  int64_t terms;
};

LayerAdapterPointer make_oft(at::Tensor upper, int64_t inputs, const OftConfig& config);
LoadedAdapter load_oft(const formats::Config& config, Files& files, const ChosenLayers& chosen);

}  // namespace tenon::adapters
