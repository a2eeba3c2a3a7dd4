#include "adapters/lokr/lokr.h"

namespace tenon::adapters {

LoadedAdapter load_lokr(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  LokrConfig lokr(config);
  LoadedAdapter out = chosen.load([&](const Layer& layer) {
    need_linear_or_conv(layer, "LoKr");
    std::string at = kPrefix + layer.path + ".lokr_";
    int64_t r = lokr.rank(layer.path);
    auto sizes = layer.base.weight.sizes();
    bool is_conv = layer.kind == LayerKind::conv2d;
    int64_t kernel_size = is_conv ? sizes[2] * sizes[3] : 1;
    auto [l, k] = lokr.factors(sizes[0]);
    auto [m, n] = lokr.factors(sizes[1]);
    LokrFactor first, second;
    if (lokr.decompose_both && 2 * r < std::max(l, m)) first.a = files.take(at + "w1_a", {l, r}), first.b = files.take(at + "w1_b", {r, m});
    else first.whole = files.take(at + "w1", {l, m});
    if (2 * r >= std::max(k, n)) {
      second.whole = is_conv ? files.take(at + "w2", {k, n, sizes[2], sizes[3]}) : files.take(at + "w2", {k, n});
    } else if (is_conv && lokr.effective_conv && kernel_size > 1) {
      second.a = files.take(at + "w2_a", {r, k}), second.b = files.take(at + "w2_b", {r, n});
      second.t = files.take(at + "t2", {r, r, sizes[2], sizes[3]});
    } else {
      second.a = files.take(at + "w2_a", {k, r}), second.b = files.take(at + "w2_b", {r, n * kernel_size});
    }
    return make_lokr(first, second, lokr.scale(layer.path));
  });
  auto paths = chosen.paths();
  lokr.ranks.check_matches(paths, chosen.unmatched);
  lokr.alphas.check_matches(paths, chosen.unmatched);
  return out;
}

}  // namespace tenon::adapters
