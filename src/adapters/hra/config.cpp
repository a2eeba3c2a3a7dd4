#include "adapters/hra/hra.h"

namespace tenon::adapters {

HraConfig::HraConfig(const formats::Config& config)
    : r(config.integer_or("r", 8, 1, kMaxAdapterRank)), makes_orthogonal(config.boolean_or("apply_GS", false)) {
  config.boolean_or("init_weights", true);
}

}  // namespace tenon::adapters
