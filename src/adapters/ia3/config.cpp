#include <algorithm>

#include "adapters/config_text.h"
#include "adapters/ia3/ia3.h"

namespace tenon::adapters {

Ia3Fields::Ia3Fields(const formats::Config& config) : feed_forward(ModuleNames::read(config, "feedforward_modules")) {
  ModuleNames targets = ModuleNames::read(config, "target_modules");
  for (const std::string& name : feed_forward.names())
    if (!targets.is_pattern() && !targets.has(name))
      config.fail("feedforward_modules", "names \"" + name + "\", which is not in target_modules");
  config.boolean_or("fan_in_fan_out", false);  // The layer determines whether its weight is transposed.
  config.boolean_or("init_ia3_weights", true);
}

// A path matches if it ends with a name, after a dot or not.
bool Ia3Fields::is_feed_forward(const std::string& path) const {
  if (feed_forward.is_pattern()) return feed_forward.match(path);
  const auto& names = feed_forward.names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return path.ends_with(name); });
}

std::vector<int64_t> Ia3Fields::sizes(const Layer& layer) const {
  if (layer.kind == LayerKind::embedding || layer.is_norm()) refuse_layer(layer, "IA3");
  bool is_forward = is_feed_forward(layer.path);
  int64_t count = is_forward ? layer.inputs() : layer.outputs();
  if (layer.kind == LayerKind::conv2d) return {1, count, 1, 1};
  return is_forward ? std::vector<int64_t>{1, count} : std::vector<int64_t>{count, 1};
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const IA3Config& config) {
  adapters::OrderedJson out = adapters::shared_fields("IA3", config);
  out["feedforward_modules"] = adapters::json_of(config.feedforward_modules);
  out["init_ia3_weights"] = config.init_ia3_weights;
  out["fan_in_fan_out"] = false;
  return adapters::config_text(out);
}

}  // namespace tenon
