#include <algorithm>

#include "adapters/ia3/ia3.h"

namespace tenon::adapters {

Ia3Config::Ia3Config(const formats::Config& config) : feed_forward(ModuleNames::read(config, "feedforward_modules")) {
  ModuleNames targets = ModuleNames::read(config, "target_modules");
  for (const std::string& name : feed_forward.names())
    if (!targets.is_pattern() && !targets.has(name))
      config.fail("feedforward_modules", "names \"" + name + "\", which is not in target_modules");
  config.boolean_or("fan_in_fan_out", false);  // The layer determines whether its weight is transposed.
  config.boolean_or("init_ia3_weights", true);
}

// A path matches if it ends with a name, after a dot or not.
bool Ia3Config::is_feed_forward(const std::string& path) const {
  if (feed_forward.is_pattern()) return feed_forward.match(path);
  const auto& names = feed_forward.names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return path.ends_with(name); });
}

}  // namespace tenon::adapters
