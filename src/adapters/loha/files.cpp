#include "adapters/loha/loha.h"

namespace tenon::adapters {

Loaded load_loha(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets) {
  LycorisConfig loha(config);
  Loaded out;
  for (size_t i : targets) {
    const Layer& layer = layers[i];
    if (layer.kind != Kind::linear && layer.kind != Kind::conv2d) refuse_layer(layer, "LoHa");
    std::string at = kPrefix + layer.path + ".hada_";
    int64_t r = loha.rank(layer.path);
    auto sizes = layer.base.weight.sizes();
    int64_t in = layer.base.weight.numel() / sizes[0];
    bool is_effective = layer.kind == Kind::conv2d && loha.effective_conv && sizes[2] * sizes[3] > 1;
    auto factor = [&](const std::string& number) -> LohaFactor {
      if (!is_effective) return {files.take(at + "w" + number + "_a", {sizes[0], r}), files.take(at + "w" + number + "_b", {r, in}), {}};
      return {files.take(at + "w" + number + "_a", {r, sizes[0]}), files.take(at + "w" + number + "_b", {r, sizes[1]}),
              files.take(at + "t" + number, {r, r, sizes[2], sizes[3]})};
    };
    LohaFactor first = factor("1");
    out.parts[i] = {make_loha(first, factor("2"), loha.scale(layer.path))};
  }
  auto paths = paths_of(layers, targets);
  loha.ranks.need_matches(paths);
  loha.alphas.need_matches(paths);
  return out;
}

}  // namespace tenon::adapters
