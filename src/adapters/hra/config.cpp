#include "adapters/config_text.h"
#include "adapters/hra/hra.h"

namespace tenon::adapters {

HraFields::HraFields(const formats::Config& config)
    : r(config.integer_or("r", 8, 1, kMaxAdapterRank)), makes_orthogonal(config.boolean_or("apply_GS", false)) {
  config.boolean_or("init_weights", true);
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const HRAConfig& config) {
  adapters::OrderedJson out = adapters::shared_fields("HRA", config);
  out["r"] = config.r;
  out["apply_GS"] = config.apply_GS;
  out["init_weights"] = config.init_weights;
  return adapters::config_text(out);
}

}  // namespace tenon
