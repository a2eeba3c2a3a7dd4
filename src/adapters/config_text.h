// Builds the text of adapter_config.json from the structs of tenon/adapter_configs.h.
#pragma once

#include <tenon/adapter_configs.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tenon::adapters {

// Keeps the order of the patterns in rank_pattern and alpha_pattern, which determines the ranks and scales.
using OrderedJson = nlohmann::ordered_json;

inline constexpr const char* kPeftVersion = "0.21.2";  // The version of PEFT whose files are written.

OrderedJson json_of(const ModuleSelector& modules);
OrderedJson json_of(const TokenIndices& tokens);
OrderedJson json_of(const IntegerOrReal& number);
OrderedJson json_of(const BoolOrText& value);
OrderedJson json_of(const RankPattern& pattern);
OrderedJson json_of(const AlphaPattern& pattern);
inline OrderedJson text_or_null(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson(text); }
template <class T>
OrderedJson list_or_null(const std::vector<T>& list) {
  return list.empty() ? OrderedJson() : OrderedJson(list);
}

// Returns the fields that the configurations of all methods have, and those of the choice of layers that this one has.
template <class C>
OrderedJson shared_fields(const char* peft_type, const C& config) {
  OrderedJson out = {{"peft_type", peft_type},
                     {"task_type", text_or_null(config.task_type)},
                     {"base_model_name_or_path", text_or_null(config.base_model_name_or_path)},
                     {"revision", text_or_null(config.revision)},
                     {"auto_mapping", nullptr},
                     {"inference_mode", false},
                     {"peft_version", kPeftVersion},
                     {"target_modules", json_of(config.target_modules)}};
  if constexpr (requires { config.exclude_modules; }) out["exclude_modules"] = json_of(config.exclude_modules);
  if constexpr (requires { config.layers_pattern; }) {
    out["layers_to_transform"] = list_or_null(config.layers_to_transform);
    out["layers_pattern"] = list_or_null(config.layers_pattern);
  }
  if constexpr (requires { config.modules_to_save; }) out["modules_to_save"] = list_or_null(config.modules_to_save);
  if constexpr (requires { config.bias; }) out["bias"] = config.bias;
  return out;
}

// Returns the text that PEFT writes: sorted names, two spaces of indent. Only patterns keep their order, which PEFT loses.
std::string config_text(const OrderedJson& config);

}  // namespace tenon::adapters
