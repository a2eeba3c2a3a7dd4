#include "adapters/loha/loha.h"

namespace tenon::adapters {

LycorisConfig::LycorisConfig(const formats::Config& config)
    : r(config.integer_or("r", 8, 1, kMaxAdapterRank)),
      alpha(config.number_or("alpha", 8, -1e9, 1e9)),
      effective_conv(config.boolean_or("use_effective_conv2d", false)),
      ranks(config, "rank_pattern"),
      alphas(config, "alpha_pattern") {
  for (const char* name : {"rank_dropout", "module_dropout"}) config.number_or(name, 0, 0, 1);
  if (config.has("init_weights")) config.any("init_weights");
}

}  // namespace tenon::adapters
