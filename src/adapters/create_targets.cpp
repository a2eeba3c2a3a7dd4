// Chooses the layers of a new adapter where PEFT chooses them by itself.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "adapters/create.h"
#include "adapters/extras.h"
#include "adapters/targets.h"
#include "base/error.h"
#include "base/text.h"

namespace tenon::adapters {

namespace {

constexpr size_t kMinTargetsToShorten = 20;  // PEFT's MIN_TARGET_MODULES_FOR_OPTIMIZATION.

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

using TargetTable = std::map<std::pair<std::string, std::string>, OrderedJson>;  // Targets by table and model type.

const TargetTable& default_targets() {
  static const TargetTable all = [] {
    TargetTable out;
    auto add = [&](const char* table, const OrderedJson& targets, const char* types) {
      for (const std::string& type : words_of(types)) out[{table, type}] = targets;
    };
#define TENON_TARGETS(table, names, types) add(#table, OrderedJson(words_of(names)), types);
#define TENON_TARGET_PATTERN(table, pattern, types) add(#table, OrderedJson(pattern), types);
#include "adapters/default_targets.def"
#undef TENON_TARGETS
#undef TENON_TARGET_PATTERN
    return out;
  }();
  return all;
}

OrderedJson find_default(const std::string& field, const std::vector<const char*>& tables, const std::vector<Layer>& layers,
                         const ModelFacts& model) {
  for (const char* table : tables)
    if (auto found = default_targets().find({table, model.model_type}); found != default_targets().end()) return found->second;
  std::string which = model.model_type.empty() ? "a tree of torch::nn modules" : "the model type \"" + model.model_type + "\"";
  throw UserError(ErrorCode::config, "adapter_config.json: the field \"" + field + "\" is missing, and PEFT has no default for " + which +
                                         ". Name layers of the model, for example " + layer_names(layers));
}

OrderedJson default_of(const std::string& type, const std::vector<Layer>& layers, const ModelFacts& model) {
  if (type == "TRAINABLE_TOKENS") {
    for (const Layer& layer : layers)
      if (layer.kind == LayerKind::embedding) return layer.path;
    throw UserError(ErrorCode::config,
                    "adapter_config.json: the model has no embedding whose tokens could be trained. Choose another method.");
  }
  std::vector<const char*> tables = {"lora"};
  if (type == "ADALORA") tables = {"adalora"};
  if (type == "IA3") tables = {"ia3"};
  if (type == "LN_TUNING") tables = {"ln_tuning"};
  if (type == "VERA") tables = {"vera", "lora"};
  return find_default("target_modules", tables, layers, model);
}

bool is_list_of_names(const OrderedJson& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const OrderedJson& name) { return name.is_string(); });
}

bool is_all_linear(const OrderedJson& value) { return value.is_string() && lower_case(value.get<std::string>()) == "all-linear"; }

// All linear layers but the output layer of a language model, or the head of a classifier of sequences.
std::vector<std::string> all_linear(const std::vector<Layer>& layers, const ModelFacts& model, bool classifies) {
  std::string left_out = model.output_embedding;
  for (const char* head : {"classifier", "score"})
    for (const Layer& layer : layers)
      if (!model.model_type.empty() && model.output_embedding.empty() && classifies && layer.path == head) left_out = head;
  std::vector<std::string> out;
  for (const Layer& layer : layers)
    if (layer.is_linear() && layer.path != left_out) out.push_back(layer.path);
  return out;
}

// The names that end a path, from the last segment to the whole path.
std::vector<std::string> suffixes_of(const std::string& path) {
  std::vector<std::string> out;
  for (size_t at = path.rfind('.'); at != std::string::npos; at = at == 0 ? std::string::npos : path.rfind('.', at - 1))
    out.push_back(path.substr(at + 1));
  out.push_back(path);
  return out;
}

bool ends_with_any(const std::string& path, const std::set<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return path.ends_with("." + name); });
}

std::set<std::string> all_modules(const std::vector<Layer>& layers, const ModelFacts& model) {
  std::set<std::string> out;
  auto add_containers = [&](const std::string& path) {
    for (size_t at = path.rfind('.'); at != std::string::npos && at > 0; at = path.rfind('.', at - 1)) out.insert(path.substr(0, at));
  };
  for (const NamedTensor& parameter : model.parameters) add_containers(parameter.key());
  for (const Layer& layer : layers) out.insert(layer.path), add_containers(layer.path);
  return out;
}

// PEFT's _find_minimal_target_modules: the shortest names that choose the targets and no other module.
std::set<std::string> shortened(const std::set<std::string>& targets, const std::set<std::string>& modules) {
  std::set<std::string> other_suffixes, out;
  for (const std::string& module : modules)
    if (!targets.contains(module) && !ends_with_any(module, targets))
      for (const std::string& suffix : suffixes_of(module)) other_suffixes.insert(suffix);
  std::vector<std::vector<std::string>> all;
  for (const std::string& target : targets) all.push_back(suffixes_of(target));
  std::sort(all.begin(), all.end());
  for (const std::vector<std::string>& suffixes : all)
    for (const std::string& suffix : suffixes) {
      if (out.contains(suffix) || other_suffixes.contains(suffix)) continue;
      if (ends_with_any(suffixes.back(), out)) continue;
      out.insert(suffix);
      break;
    }
  return out.empty() || out.size() >= targets.size() ? targets : out;
}

}  // namespace

void resolve_targets(OrderedJson& config, const std::vector<Layer>& layers, const ModelFacts& model) {
  const std::string type = config.at("peft_type");
  OrderedJson& targets = config["target_modules"];
  if (targets.is_null()) targets = default_of(type, layers, model);
  if (config.contains("feedforward_modules") && config["feedforward_modules"].is_null())
    config["feedforward_modules"] = find_default("feedforward_modules", {"ia3_feedforward"}, layers, model);
  const std::string task = config.at("task_type").is_string() ? config.at("task_type").get<std::string>() : "";
  if (config.contains("modules_to_save") && (config["modules_to_save"].is_null() || config["modules_to_save"].is_array()))
    for (const std::string& head : heads_of(task)) config["modules_to_save"].push_back(head);
  if (is_all_linear(targets)) targets = all_linear(layers, model, task == "SEQ_CLS");
  bool keeps_lists = type == "LN_TUNING" || type == "TRAINABLE_TOKENS";
  for (const char* field : {"target_modules", "exclude_modules", "feedforward_modules"})
    if (!keeps_lists && config.contains(field) && is_list_of_names(config[field]))
      config[field] = config[field].get<std::set<std::string>>();
  if (!is_list_of_names(targets) || targets.size() < kMinTargetsToShorten || type == "IA3") return;
  targets = shortened(targets.get<std::set<std::string>>(), all_modules(layers, model));
}

}  // namespace tenon::adapters
