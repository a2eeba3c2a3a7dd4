#include "adapters/lora/lora.h"

namespace tenon::adapters {

Loaded load_lora(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets) {
  LoraConfig lora(config);
  Loaded out;
  std::vector<std::string> paths;
  for (size_t i : targets) {
    paths.push_back(layers[i].path);
    out.parts[i] = {make_lora(lora, files, layers[i])};
  }
  lora.ranks.need_matches(paths);
  lora.alphas.need_matches(paths);
  return out;
}

}  // namespace tenon::adapters
