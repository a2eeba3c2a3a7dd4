// IA3: one trained factor per output or, for feed-forward layers, per input.
#pragma once

#include "adapters/method.h"
#include "adapters/targets.h"

namespace tenon::adapters {

struct Ia3Config {
  explicit Ia3Config(const formats::Config& config);
  bool is_feed_forward(const std::string& path) const;

  ModuleNames feed_forward;
};

LayerAdapterPointer make_ia3(at::Tensor factors, bool is_feed_forward);
LoadedAdapter load_ia3(const formats::Config& config, Files& files, const ChosenLayers& chosen);

}  // namespace tenon::adapters
