#include <cmath>
#include <nlohmann/json.hpp>

#include "adapters/lora/lora.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

// Refuses initializations that also change the base's weights: the file is valid only with a base that was changed in the same way.
void check_start(const formats::Config& config) {
  if (!config.has("init_lora_weights")) return;
  const nlohmann::json& value = config.any("init_lora_weights");
  if (value.is_boolean() || value == "gaussian" || value == "orthogonal" || value == "eva") return;
  config.fail("init_lora_weights",
              value.dump() + " changes the weights of the base. Save the adapter as plain LoRA (path_initial_model_for_weight_conversion)");
}

}  // namespace

LoraConfig::LoraConfig(const formats::Config& config)
    : r(config.integer_or("r", 8, 1, kMaxAdapterRank)),
      alpha(config.number_or("lora_alpha", 8, -1e9, 1e9)),
      rslora(config.boolean_or("use_rslora", false)),
      dora(config.boolean_or("use_dora", false)),
      bias_on_b(config.boolean_or("lora_bias", false)),
      ranks(config, "rank_pattern"),
      alphas(config, "alpha_pattern") {
  check_start(config);
  config.number_or("lora_dropout", 0, 0, 1);  // Training with dropout is refused later.
  if (dora && bias_on_b) config.fail("lora_bias", "cannot be combined with use_dora");
  config.boolean_or("fan_in_fan_out", false);  // The layer determines whether its weight is transposed.
}

double LoraConfig::scale(const std::string& path) const {
  double a = alphas.of(path, alpha), rank = static_cast<double>(this->rank(path));
  return rslora ? a / std::sqrt(rank) : a / rank;
}

}  // namespace tenon::adapters
