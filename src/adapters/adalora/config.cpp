#include <algorithm>
#include <nlohmann/json.hpp>

#include "adapters/adalora/adalora.h"

namespace tenon::adapters {

AdaloraConfig::AdaloraConfig(const formats::Config& config) : first_rank(config.integer_or("init_r", 12, 1, 1 << 16)) {
  double alpha = config.number_or("lora_alpha", 8, -1e9, 1e9), first = static_cast<double>(first_rank);
  scale = (alpha > 0 ? alpha : first) / (first + 1e-5);  // PEFT's own guard against 0 is part of the result
  if (config.has("rank_pattern")) {
    const std::string kEnd = ".lora_E";
    for (const auto& [name, flags] : config.any("rank_pattern").items()) {
      bool are_flags = flags.is_array() && std::all_of(flags.begin(), flags.end(), [](const auto& flag) { return flag.is_boolean(); });
      if (!name.ends_with(kEnd) || !are_flags || flags.size() != static_cast<size_t>(first_rank))
        config.fail("rank_pattern", "does not say which ranks of which layer are left");
      left[name.substr(0, name.size() - kEnd.size())] = std::count(flags.begin(), flags.end(), true);
    }
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  target_rank = config.integer_or("target_r", 8, 1, 1 << 16);
  tinit = config.integer_or("tinit", 0, 0, kMost);
  tfinal = config.integer_or("tfinal", 0, 0, kMost);
  delta_t = config.integer_or("deltaT", 1, 1, kMost);
  total_step = config.has("total_step") ? config.integer("total_step", 1, kMost) : 0;
  beta1 = config.number_or("beta1", 0.85, 0, 1);
  beta2 = config.number_or("beta2", 0.85, 0, 1);
  orthogonal_weight = config.number_or("orth_reg_weight", 0.5, 0, 1e9);
  config.number_or("lora_dropout", 0, 0, 1);  // training with it is refused
  if (config.has("r")) config.any("r");       // is not used at all
  config.boolean_or("fan_in_fan_out", false);
  if (config.has("init_lora_weights") && !config.any("init_lora_weights").is_boolean())
    config.fail("init_lora_weights", "is not true or false, which may change the weights of the base");
}

int64_t AdaloraConfig::rank(const std::string& path) const {
  auto found = left.find(path);
  return found == left.end() ? first_rank : found->second;
}

}  // namespace tenon::adapters
