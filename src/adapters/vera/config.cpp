#include "adapters/config_text.h"
#include "adapters/vera/vera.h"

namespace tenon::adapters {

VeraFields::VeraFields(const formats::Config& config)
    : r(config.integer_or("r", 256, 1, 1 << 20)),
      key(config.integer_or("projection_prng_key", 0, INT64_MIN, INT64_MAX)),
      saves_projections(config.boolean_or("save_projection", true)),
      dropout(config.number_or("vera_dropout", 0, 0, 1)) {
  config.number_or("d_initial", 0.1, -1e9, 1e9);
  config.boolean_or("fan_in_fan_out", false);
  config.boolean_or("init_weights", true);
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const VeraConfig& config) {
  adapters::OrderedJson out = adapters::shared_fields("VERA", config);
  out["r"] = config.r;
  out["projection_prng_key"] = config.projection_prng_key;
  out["save_projection"] = config.save_projection;
  out["vera_dropout"] = config.vera_dropout;
  out["d_initial"] = config.d_initial;
  out["init_weights"] = config.init_weights;
  out["fan_in_fan_out"] = false;
  return adapters::config_text(out);
}

}  // namespace tenon
