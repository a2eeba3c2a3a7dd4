#include "adapters/loha/loha.h"

namespace tenon::adapters {

LoadedAdapter load_loha(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  LycorisFields loha(config);
  LoadedAdapter out = chosen.load([&](const Layer& layer) {
    need_linear_or_conv(layer, "LoHa");
    std::string at = kPrefix + layer.path + ".hada_";
    int64_t r = loha.rank(layer.path);
    auto sizes = layer.base.weight.sizes();
    int64_t in = layer.base.weight.numel() / sizes[0];
    bool is_effective = loha.is_effective(layer);
    auto factor = [&](const std::string& number) -> LohaFactor {
      if (!is_effective) return {files.take(at + "w" + number + "_a", {sizes[0], r}), files.take(at + "w" + number + "_b", {r, in}), {}};
      return {files.take(at + "w" + number + "_a", {r, sizes[0]}), files.take(at + "w" + number + "_b", {r, sizes[1]}),
              files.take(at + "t" + number, {r, r, sizes[2], sizes[3]})};
    };
    LohaFactor first = factor("1");
    LycorisDropout dropout(loha.module_dropout, loha.rank_dropout, /*is_scaled=*/true);
    return make_loha(first, factor("2"), loha.scale(layer.path), dropout);
  });
  auto paths = chosen.paths();
  loha.ranks.check_matches(paths, chosen.unmatched);
  loha.alphas.check_matches(paths, chosen.unmatched);
  return out;
}

}  // namespace tenon::adapters
