#include "adapters/lokr/lokr.h"

namespace tenon::adapters {

LokrConfig::LokrConfig(const formats::Config& config)
    : LycorisConfig(config),
      decompose_both(config.boolean_or("decompose_both", false)),
      decompose_factor(config.integer_or("decompose_factor", -1, -1, 1 << 30)) {
  config.boolean_or("rank_dropout_scale", false);
}

std::pair<int64_t, int64_t> LokrConfig::factors(int64_t number) const {
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

}  // namespace tenon::adapters
