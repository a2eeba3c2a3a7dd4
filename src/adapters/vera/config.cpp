#include "adapters/vera/vera.h"

namespace tenon::adapters {

VeraConfig::VeraConfig(const formats::Config& config)
    : r(config.integer_or("r", 256, 1, 1 << 20)),
      key(config.integer_or("projection_prng_key", 0, INT64_MIN, INT64_MAX)),
      saves_projections(config.boolean_or("save_projection", true)) {
  config.number_or("vera_dropout", 0, 0, 1);
  config.number_or("d_initial", 0.1, -1e9, 1e9);
  config.boolean_or("fan_in_fan_out", false);
  config.boolean_or("init_weights", true);
}

}  // namespace tenon::adapters
