#include "adapters/loha/lycoris_json.h"
#include "adapters/lokr/lokr.h"

namespace tenon::adapters {

LokrFields::LokrFields(const formats::Config& config)
    : LycorisFields(config),
      decompose_both(config.boolean_or("decompose_both", false)),
      decompose_factor(config.integer_or("decompose_factor", -1, -1, 1 << 30)),
      scales_dropout(config.boolean_or("rank_dropout_scale", false)) {}

std::pair<int64_t, int64_t> LokrFields::factors(int64_t number) const {
  if (decompose_factor > 0 && number % decompose_factor == 0) {
    return {decompose_factor, number / decompose_factor};  // The order stays, even if the first factor is the larger one.
  }
  int64_t most = decompose_factor < 0 ? number : decompose_factor, m = 1, n = number, sum = m + n;
  while (m < n) {
    int64_t next = m + 1;
    while (number % next != 0) ++next;
    if (next + number / next > sum || next > most) break;
    m = next, n = number / next, sum = m + n;
  }
  return {std::min(m, n), std::max(m, n)};
}

LokrShape LokrFields::shape(const Layer& layer) const {
  auto sizes = layer.base.weight.sizes();
  bool is_conv = layer.kind == LayerKind::conv2d;
  int64_t r = rank(layer.path), kernel_size = is_conv ? sizes[2] * sizes[3] : 1;
  auto [l, k] = factors(sizes[0]);
  auto [m, n] = factors(sizes[1]);
  LokrShape out;
  if (decompose_both && 2 * r < std::max(l, m)) out.first_a = {l, r}, out.first_b = {r, m};
  else out.first = {l, m};
  if (2 * r >= std::max(k, n)) {
    out.second = {k, n};
    if (is_conv) out.second = {k, n, sizes[2], sizes[3]};
  } else if (is_effective(layer)) {
    out.second_a = {r, k}, out.second_b = {r, n}, out.second_t = {r, r, sizes[2], sizes[3]};
  } else {
    out.second_a = {k, r}, out.second_b = {r, n * kernel_size};
  }
  return out;
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const LoKrConfig& config) {
  adapters::OrderedJson out = adapters::lycoris_json("LOKR", config);
  out["init_weights"] = adapters::json_of(config.init_weights);
  out["decompose_both"] = config.decompose_both;
  out["decompose_factor"] = config.decompose_factor;
  out["rank_dropout_scale"] = config.rank_dropout_scale;
  return adapters::config_text(out);
}

}  // namespace tenon
