#include <algorithm>
#include <cctype>
#include <cmath>

#include "adapters/config_text.h"
#include "adapters/lora/lora.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

// Refuses initializations that also change the base's weights: the file is valid only with a base that was changed in the same way.
void check_start(const formats::Config& config) {
  if (!config.has("init_lora_weights")) return;
  const nlohmann::json& value = config.any("init_lora_weights");
  if (value.is_boolean() || value == "orthogonal" || value == "eva" || (value.is_string() && is_gaussian(value.get<std::string>()))) return;
  config.fail("init_lora_weights",
              value.dump() + " changes the weights of the base. Save the adapter as plain LoRA (path_initial_model_for_weight_conversion)");
}

}  // namespace

LoraFields::LoraFields(const formats::Config& config)
    : r(config.integer_or("r", 8, 1, kMaxAdapterRank)),
      alpha(config.number_or("lora_alpha", 8, -1e9, 1e9)),
      dropout(config.number_or("lora_dropout", 0, 0, 1)),
      rslora(config.boolean_or("use_rslora", false)),
      dora(config.boolean_or("use_dora", false)),
      bias_on_b(config.boolean_or("lora_bias", false)),
      ranks(config, "rank_pattern"),
      alphas(config, "alpha_pattern") {
  check_start(config);
  if (dora && bias_on_b) config.fail("lora_bias", "cannot be combined with use_dora");
  config.boolean_or("fan_in_fan_out", false);  // The layer determines whether its weight is transposed.
}

double LoraFields::scale(const std::string& path) const {
  double a = alphas.of(path, alpha), rank = static_cast<double>(this->rank(path));
  return rslora ? a / std::sqrt(rank) : a / rank;
}

bool is_gaussian(const std::string& init_lora_weights) {
  constexpr std::string_view kName = "gaussian";
  return std::equal(kName.begin(), kName.end(), init_lora_weights.begin(), init_lora_weights.end(),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

nlohmann::ordered_json lora_json(const char* peft_type, const LoraConfig& config) {
  OrderedJson out = shared_fields(peft_type, config);
  out["r"] = config.r;
  out["lora_alpha"] = json_of(config.lora_alpha);
  out["lora_dropout"] = config.lora_dropout;
  out["use_rslora"] = config.use_rslora;
  out["use_dora"] = config.use_dora;
  out["lora_bias"] = config.lora_bias;
  out["init_lora_weights"] = json_of(config.init_lora_weights);
  out["rank_pattern"] = json_of(config.rank_pattern);
  out["alpha_pattern"] = json_of(config.alpha_pattern);
  out["trainable_token_indices"] = json_of(config.trainable_token_indices);
  out["fan_in_fan_out"] = false;
  // Variants that are switched off.
  for (const char* name : {"alora_invocation_tokens", "arrow_config", "corda_config", "eva_config", "kasa_config", "layer_replication",
                           "lora_ga_config", "megatron_config", "monteclora_config", "target_parameters", "use_bdlora", "velora_config"})
    out[name] = nullptr;
  for (const char* name : {"ensure_weight_tying", "use_qalora"}) out[name] = false;
  out["loftq_config"] = OrderedJson::object();
  out["megatron_core"] = "megatron.core";
  out["qalora_group_size"] = 16;
  return out;
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const LoraConfig& config) { return adapters::config_text(adapters::lora_json("LORA", config)); }

}  // namespace tenon
