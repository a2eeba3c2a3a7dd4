#include <algorithm>

#include "adapters/ia3/ia3.h"

namespace tenon::adapters {

Ia3Config::Ia3Config(const formats::Config& config) : feed_forward(Names::read(config, "feedforward_modules")) {
  Names targets = Names::read(config, "target_modules");
  for (const std::string& name : feed_forward.names())
    if (!targets.is_pattern() && !targets.has(name))
      config.fail("feedforward_modules", "names \"" + name + "\", which target_modules does not");
  config.boolean_or("fan_in_fan_out", false);  // how a weight lies is the layer's own knowledge
  config.boolean_or("init_ia3_weights", true);
}

// Names end a path, at a dot or not.
bool Ia3Config::is_feed_forward(const std::string& path) const {
  if (feed_forward.is_pattern()) return feed_forward.match(path);
  const auto& names = feed_forward.names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return path.ends_with(name); });
}

}  // namespace tenon::adapters
