#include "adapters/lora/lora.h"

namespace tenon::adapters {

LoadedAdapter load_lora(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  LoraFields lora(config);
  LoadedAdapter out = chosen.load([&](const Layer& layer) { return make_lora(lora, files, layer); });
  auto paths = chosen.paths();
  lora.ranks.check_matches(paths, chosen.unmatched);
  lora.alphas.check_matches(paths, chosen.unmatched);
  return out;
}

}  // namespace tenon::adapters
