#include <algorithm>

#include "adapters/adalora/adalora.h"
#include "adapters/config_text.h"
#include "adapters/lora/lora.h"

namespace tenon::adapters {

AdaloraFields::AdaloraFields(const formats::Config& config) : first_rank(config.integer_or("init_r", 12, 1, kMaxAdapterRank)) {
  double alpha = config.number_or("lora_alpha", 8, -1e9, 1e9), first = static_cast<double>(first_rank);
  scale = (alpha > 0 ? alpha : first) / (first + 1e-5);  // PEFT's guard against division by 0 affects the result.
  if (config.has("rank_pattern")) {
    const std::string kSuffix = ".lora_E";
    for (const auto& [name, flags] : config.any("rank_pattern").items()) {
      bool are_flags = flags.is_array() && std::all_of(flags.begin(), flags.end(), [](const auto& flag) { return flag.is_boolean(); });
      if (!name.ends_with(kSuffix) || !are_flags || flags.size() != static_cast<size_t>(first_rank))
        config.fail("rank_pattern", "does not list the kept ranks of each layer");
      remaining[name.substr(0, name.size() - kSuffix.size())] = std::count(flags.begin(), flags.end(), true);
    }
  }
  constexpr int64_t kMaxSteps = int64_t{1} << 40;  // Safety limit, not measured.
  target_rank = config.integer_or("target_r", 8, 1, kMaxAdapterRank);
  tinit = config.integer_or("tinit", 0, 0, kMaxSteps);
  tfinal = config.integer_or("tfinal", 0, 0, kMaxSteps);
  delta_t = config.integer_or("deltaT", 1, 1, kMaxSteps);
  total_step = config.has("total_step") ? config.integer("total_step", 1, kMaxSteps) : 0;
  beta1 = config.number_or("beta1", 0.85, 0, 1);
  beta2 = config.number_or("beta2", 0.85, 0, 1);
  orthogonal_weight = config.number_or("orth_reg_weight", 0.5, 0, 1e9);
  dropout = config.number_or("lora_dropout", 0, 0, 1);
  if (config.has("r")) config.any("r");  // AdaLoRA does not use r.
  config.boolean_or("fan_in_fan_out", false);
  if (config.has("init_lora_weights") && !config.any("init_lora_weights").is_boolean())
    config.fail("init_lora_weights", "is neither true nor false, and may change the weights of the base");
}

int64_t AdaloraFields::rank(const std::string& path) const {
  auto found = remaining.find(path);
  return found == remaining.end() ? first_rank : found->second;
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const AdaLoraConfig& config) {
  adapters::OrderedJson out = adapters::lora_json("ADALORA", {.lora_alpha = config.lora_alpha,
                                                              .lora_dropout = config.lora_dropout,
                                                              .init_lora_weights = config.init_lora_weights,
                                                              .target_modules = config.target_modules,
                                                              .exclude_modules = config.exclude_modules,
                                                              .layers_to_transform = config.layers_to_transform,
                                                              .layers_pattern = config.layers_pattern,
                                                              .modules_to_save = config.modules_to_save,
                                                              .trainable_token_indices = config.trainable_token_indices,
                                                              .bias = config.bias,
                                                              .task_type = config.task_type,
                                                              .base_model_name_or_path = config.base_model_name_or_path,
                                                              .revision = config.revision});
  out["rank_pattern"] = nullptr;  // Pruning fills it.
  out["target_r"] = config.target_r;
  out["init_r"] = config.init_r;
  out["tinit"] = config.tinit;
  out["tfinal"] = config.tfinal;
  out["deltaT"] = config.deltaT;
  out["beta1"] = config.beta1;
  out["beta2"] = config.beta2;
  out["orth_reg_weight"] = config.orth_reg_weight;
  out["total_step"] = config.total_step == 0 ? adapters::OrderedJson() : adapters::OrderedJson(config.total_step);
  return adapters::config_text(out);
}

}  // namespace tenon
