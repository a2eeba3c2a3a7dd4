#include <algorithm>

#include "adapters/adalora/adalora.h"

namespace tenon::adapters {

Loaded load_adalora(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets) {
  AdaloraConfig adalora(config);
  Loaded out;
  for (const auto& [path, rank] : adalora.left)
    if (std::none_of(targets.begin(), targets.end(), [&](size_t i) { return layers[i].path == path; }))
      config.fail("rank_pattern", "names \"" + path + "\", which is no adapted layer");
  for (size_t i : targets) {
    const Layer& layer = layers[i];
    if (layer.kind == Kind::embedding || layer.is_norm()) refuse_layer(layer, "AdaLoRA");
    std::string at = kPrefix + layer.path + ".";
    int64_t r = adalora.rank(layer.path), in = layer.base.weight.numel() / layer.outputs();
    at::Tensor a = files.take(at + "lora_A", {r, in}), e = files.take(at + "lora_E", {r, 1});
    out.parts[i] = {make_adalora(a, e, files.take(at + "lora_B", {layer.outputs(), r}), adalora.scale)};
  }
  return out;
}

}  // namespace tenon::adapters
