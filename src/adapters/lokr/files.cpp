#include "adapters/lokr/lokr.h"

namespace tenon::adapters {

LoadedAdapter load_lokr(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  LokrFields lokr(config);
  LoadedAdapter out = chosen.load([&](const Layer& layer) {
    need_linear_or_conv(layer, "LoKr");
    std::string at = kPrefix + layer.path + ".lokr_";
    LokrShape shape = lokr.shape(layer);
    auto take = [&](const std::string& name, const std::vector<int64_t>& sizes) {
      return sizes.empty() ? at::Tensor() : files.take(at + name, sizes);
    };
    LokrFactor first{take("w1", shape.first), take("w1_a", shape.first_a), take("w1_b", shape.first_b), {}};
    LokrFactor second{take("w2", shape.second), take("w2_a", shape.second_a), take("w2_b", shape.second_b), take("t2", shape.second_t)};
    LycorisDropout dropout(lokr.module_dropout, lokr.rank_dropout, lokr.scales_dropout);
    return make_lokr(first, second, lokr.scale(layer.path), dropout);
  });
  auto paths = chosen.paths();
  lokr.ranks.check_matches(paths, chosen.unmatched);
  lokr.alphas.check_matches(paths, chosen.unmatched);
  return out;
}

}  // namespace tenon::adapters
