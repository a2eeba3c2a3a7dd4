#include "adapters/lora/lora.h"

namespace tenon::adapters {

Loaded load_lora(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets) {
  LoraConfig lora(config);
  Loaded out;
  for (size_t i : targets) out.parts[i] = {make_lora(lora, files, layers[i])};
  auto paths = paths_of(layers, targets);
  lora.ranks.need_matches(paths);
  lora.alphas.need_matches(paths);
  return out;
}

}  // namespace tenon::adapters
