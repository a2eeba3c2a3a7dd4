// IA3: one trained factor per output or, for feed-forward layers, per input.
#pragma once

#include "adapters/method.h"
#include "adapters/targets.h"

namespace tenon::adapters {

struct Ia3Fields {
  explicit Ia3Fields(const formats::Config& config);
  bool is_feed_forward(const std::string& path) const;
  // Returns the sizes of a layer's factors. Throws UserError for layers that IA3 does not support.
  std::vector<int64_t> sizes(const Layer& layer) const;

  ModuleNames feed_forward;
};

LayerAdapterPointer make_ia3(at::Tensor factors, bool is_feed_forward);
LoadedAdapter load_ia3(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_ia3(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

}  // namespace tenon::adapters
