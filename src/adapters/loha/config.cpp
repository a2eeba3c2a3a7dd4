#include "adapters/loha/loha.h"
#include "adapters/loha/lycoris_json.h"

namespace tenon::adapters {

LycorisFields::LycorisFields(const formats::Config& config)
    : r(config.integer_or("r", 8, 1, kMaxAdapterRank)),
      alpha(config.number_or("alpha", 8, -1e9, 1e9)),
      rank_dropout(config.number_or("rank_dropout", 0, 0, 1)),
      module_dropout(config.number_or("module_dropout", 0, 0, 1)),
      effective_conv(config.boolean_or("use_effective_conv2d", false)),
      ranks(config, "rank_pattern"),
      alphas(config, "alpha_pattern") {
  if (config.has("init_weights")) config.any("init_weights");
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const LoHaConfig& config) {
  adapters::OrderedJson out = adapters::lycoris_json("LOHA", config);
  out["init_weights"] = config.init_weights;
  return adapters::config_text(out);
}

}  // namespace tenon
