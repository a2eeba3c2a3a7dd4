#include "adapters/create.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "adapters/directory.h"
#include "adapters/extras.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "formats/json.h"

namespace tenon::adapters {

namespace {

constexpr const char* kFile = "adapter_config.json";

[[noreturn]] void refuse_config(const std::string& text) { throw UserError(ErrorCode::config, std::string(kFile) + ": " + text); }

[[noreturn]] void refuse_field(const std::string& name, const OrderedJson& known, const std::string& type) {
  std::vector<std::string> names;
  for (const auto& [other, value] : known.items()) names.push_back(other);
  std::string nearest = nearest_name(name, names);
  refuse_config("the method " + type + " has no field " + shown(name) + ". " +
                (nearest.empty() ? "Remove it, or see tenon/adapter_configs.h for its fields." : "Did you mean " + shown(nearest) + "?"));
}

// Returns the configuration with all fields of the method.
OrderedJson completed(const std::string& text) {
  auto given = formats::Config::parse(text, kFile);
  std::string type = given.text("peft_type");
  OrderedJson out = OrderedJson::parse(find_method(type).default_config()), fields = OrderedJson::parse(text);
  for (const auto& [name, value] : fields.items()) {
    if (name == "runtime_config") continue;  // PEFT ignores it as well.
    if (!out.contains(name)) refuse_field(name, out, type);
    out[name] = value;
  }
  return out;
}

// Refuses combinations that PEFT's classes refuse when they are constructed.
void check_fields(const OrderedJson& config) {
  const std::string type = config.at("peft_type");
  const char* tasks[] = {"SEQ_CLS", "SEQ_2_SEQ_LM", "CAUSAL_LM", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION"};
  const OrderedJson& task = config.at("task_type");
  if (!task.is_null() && std::none_of(std::begin(tasks), std::end(tasks), [&](const char* known) { return task == known; }))
    refuse_config("the field \"task_type\" is " + task.dump() +
                  ". Use CAUSAL_LM, SEQ_CLS, SEQ_2_SEQ_LM, TOKEN_CLS, QUESTION_ANS or FEATURE_EXTRACTION, or leave it out");
  if (!config.at("target_modules").is_string()) return;
  auto need_null = [&](const char* field) {
    if (!config.at(field).is_null())
      refuse_config(std::string("the field \"") + field +
                    "\" has no effect if target_modules is a regular expression. Write target_modules as a " +
                    "list, or put the layers into the expression");
  };
  if (type == "LORA" || type == "ADALORA" || type == "HRA") need_null("layers_to_transform");
  if (type == "LORA" || type == "HRA") need_null("layers_pattern");
}

// The Python module of a Transformers class.
std::string library_of(const std::string& model_type) {
  std::string folder = model_type == "gemma3_text" ? "gemma3" : model_type;
  std::replace(folder.begin(), folder.end(), '-', '_');
  return "transformers.models." + folder + ".modeling_" + folder;
}

// Sets the fields that PEFT fills when it saves a new adapter.
void set_saved_fields(OrderedJson& config, const ModelFacts& model) {
  config["inference_mode"] = true;
  config["peft_version"] = kPeftVersion;
  if (config.at("base_model_name_or_path") == "") config["base_model_name_or_path"] = nullptr;
  if (config.at("task_type").is_null() && !model.architecture.empty())
    config["auto_mapping"] = {{"base_model_class", model.architecture}, {"parent_library", library_of(model.model_type)}};
}

// The last linear target determines fan_in_fan_out.
void set_layout(OrderedJson& config, const ChosenLayers& chosen) {
  if (!config.contains("fan_in_fan_out")) return;
  chosen.for_each([&](const Layer& layer) {
    if (layer.is_linear()) config["fan_in_fan_out"] = layer.kind == LayerKind::conv1d;
  });
}

// PEFT puts an adapter on the head of these tasks and then a copy around both, which no file can represent.
void check_heads(const formats::Config& config, const std::vector<Layer>& layers, const OrderedJson& json) {
  if (json.at("task_type") != "TOKEN_CLS" && json.at("task_type") != "QUESTION_ANS") return;
  std::vector<std::string> heads = heads_of(json.at("task_type").get<std::string>());
  OrderedJson without = json;
  OrderedJson& saved = without["modules_to_save"];
  for (size_t i = 0; i < heads.size() && saved.is_array(); ++i) saved.erase(saved.size() - 1);  // resolve_targets appended them.
  for (size_t i : choose_layers(formats::Config::parse(without.dump(), kFile), layers, Unmatched::warn))
    for (const std::string& head : heads)
      if (is_within(layers[i].path, head))
        config.fail("target_modules", "chooses " + layers[i].path + ", which the task_type saves as a whole. Put it into exclude_modules");
}

}  // namespace

AdapterPointer create_adapter(const std::string& name, const std::string& text, const std::vector<Layer>& layers, const ModelFacts& model,
                              const LoadOptions& options) {
  c10::InferenceMode off(false);  // Tensors made in inference mode could not be trained.
  at::NoGradGuard no_grad;
  OrderedJson json = completed(text);
  check_fields(json);
  resolve_targets(json, layers, model);
  set_saved_fields(json, model);
  auto config = formats::Config::parse(config_text(json), kFile);
  std::vector<size_t> targets = choose_layers(config, layers, options.unmatched_patterns);
  check_heads(config, layers, json);
  ChosenLayers chosen{layers, targets, options.unmatched_patterns};
  set_layout(json, chosen);
  NewTensors tensors;
  find_method(config.text("peft_type")).create(config, chosen, tensors);
  add_copies(config, name, chosen, model, tensors);
  return make_adapter(name, config, config_text(json), Files(tensors.by_name()), layers, targets, options.unmatched_patterns);
}

}  // namespace tenon::adapters
