// LoRA and its variants: rsLoRA, a bias on B, ranks and scales per layer, DoRA.
#pragma once

#include "adapters/method.h"
#include "adapters/targets.h"

namespace tenon::adapters {

struct LoraConfig {
  explicit LoraConfig(const formats::Config& config);
  int64_t rank(const std::string& path) const { return static_cast<int64_t>(ranks.of(path, static_cast<double>(r))); }
  double scale(const std::string& path) const;

  int64_t r;
  double alpha;
  bool rslora, dora, bias_on_b;
  Patterns ranks, alphas;
};

// Takes the layer's tensors from the file, including DoRA's magnitude.
LayerAdapterPointer make_lora(const LoraConfig& config, Files& files, const Layer& layer);

LoadedAdapter load_lora(const formats::Config& config, Files& files, const ChosenLayers& chosen);

}  // namespace tenon::adapters
