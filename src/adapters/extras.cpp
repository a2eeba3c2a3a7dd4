#include "adapters/extras.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "adapters/replace.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

bool has(const std::vector<size_t>& all, size_t one) { return std::find(all.begin(), all.end(), one) != all.end(); }

void take_copies(const formats::Config& config, Files& files, const std::vector<Layer>& layers, LoadedAdapter& loaded) {
  std::vector<std::string> heads = heads_of(config);
  for (const std::string& name : saved_modules(config)) {
    bool is_any = false;
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      if (!is_within(layer.path, name)) continue;
      is_any = true;
      if (!loaded.layer_adapters[i].empty()) continue;  // Another name has already matched the layer.
      std::string at = kPrefix + layer.path + ".";
      Base base{files.take(at + "weight", layer.base.weight.sizes()), {}};
      if (layer.base.bias.defined()) base.bias = files.take(at + "bias", layer.base.bias.sizes());
      loaded.layer_adapters[i].push_back(make_replacement(base, "weight", "bias"));
    }
    if (!is_any && std::find(heads.begin(), heads.end(), name) == heads.end())
      config.fail("modules_to_save", "names \"" + name + "\", which contains no layer of the model");
  }
}

// With bias = "all", PEFT writes the bias of a copied layer twice, the second time as ...modules_to_save..., and the bias of the base as
// ...original_module.... The two copies must be equal; calls without the adapter use the base's.
void take_repeated_biases(Files& files, const std::vector<Layer>& layers, LoadedAdapter& loaded) {
  std::map<std::string, size_t> copied;  // Maps the name of each copied bias to its layer.
  for (const auto& [i, layer_adapters] : loaded.layer_adapters)
    if (!layer_adapters.empty() && layer_adapters[0]->replacement()->weight.defined()) copied[kPrefix + layers[i].path + ".bias"] = i;
  auto without_segment = [](const std::string& name, const std::string& segment) {
    size_t at = name.find(segment);
    return at == std::string::npos ? "" : name.substr(0, at) + "." + name.substr(at + segment.size());
  };
  std::vector<std::string> names;
  for (std::string_view name : files.names()) names.emplace_back(name);
  for (const std::string& name : names) {
    if (auto original = copied.find(without_segment(name, ".original_module.")); original != copied.end())
      loaded.shared.emplace_back(name, files.take(name, layers[original->second].base.bias.sizes()));
    std::string first = without_segment(name, ".modules_to_save.");
    if (first.empty()) continue;
    if (!copied.contains(first)) {  // The adapter's name follows modules_to_save.
      size_t begin = name.find(".modules_to_save.") + 1, end = first.find('.', begin);
      if (end != std::string::npos) first.erase(begin, end + 1 - begin);
    }
    auto copy = copied.find(first);
    if (copy == copied.end()) continue;
    at::Tensor bias = loaded.layer_adapters[copy->second][0]->replacement()->bias;
    if (!at::equal(files.take(name, bias.sizes()), bias))
      throw UserError(ErrorCode::adapter, "adapter_model.safetensors: tensors \"" + name + "\" and \"" + first +
                                              "\" are the same bias and differ. Save the adapter with PEFT again.");
    loaded.repeated[name] = first;
  }
}

void take_biases(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets,
                 LoadedAdapter& loaded) {
  std::string which = config.has("bias") ? config.text("bias") : "none";
  if (which == "none") return;
  if (which == "all") take_repeated_biases(files, layers, loaded);
  if (which != "all" && !which.ends_with("_only"))
    config.fail("bias", "is \"" + which + "\", which is not supported; it must be none, all or <method>_only");
  for (size_t i = 0; i < layers.size(); ++i) {
    bool is_target = has(targets, i);
    if (!layers[i].base.bias.defined() || !(which == "all" || is_target) || !loaded.layer_adapters[i].empty()) continue;
    std::string name = is_target ? "base_layer.bias" : "bias";
    loaded.layer_adapters[i].push_back(
        make_replacement({{}, files.take(kPrefix + layers[i].path + "." + name, layers[i].base.bias.sizes())}, "", name));
  }
}

// PEFT also writes the full weight of an adapted embedding. It is used only if it differs from the base's.
void take_whole_weights(Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets, LoadedAdapter& loaded) {
  for (size_t i : targets) {
    std::string name = kPrefix + layers[i].path + ".base_layer.weight";
    if (!files.has(name)) continue;
    at::Tensor weight = files.take(name, layers[i].base.weight.sizes());
    bool is_own = at::equal(weight, layers[i].base.weight.to(weight.scalar_type()));
    loaded.shared.emplace_back(name, is_own ? layers[i].base.weight : weight);
    if (!is_own) loaded.layer_adapters[i].push_back(make_replacement({weight, {}}, "", ""));
  }
}

void take_tokens(const formats::Config& config, Files& files, const std::vector<Layer>& layers, LoadedAdapter& loaded) {
  for (const auto& [i, ids] : trained_tokens(config, layers)) {
    at::Tensor rows =
        files.take(kPrefix + layers[i].path + "." + kTokensKey, {static_cast<int64_t>(ids.size()), layers[i].base.weight.size(1)});
    add_tokens(layers, {i, ids}, rows, kTokensKey, loaded);
  }
}

}  // namespace

std::vector<std::string> heads_of(const formats::Config& config) {
  if (!config.has("task_type") || config.text("peft_type") == "TRAINABLE_TOKENS") return {};  // This method has no modules_to_save.
  return heads_of(config.text("task_type"));
}

std::vector<std::string> heads_of(const std::string& task) {
  if (task == "SEQ_CLS" || task == "TOKEN_CLS") return {"classifier", "score"};
  if (task == "QUESTION_ANS") return {"qa_outputs"};
  return {};
}

std::vector<std::string> saved_modules(const formats::Config& config) {
  std::vector<std::string> names = config.has("modules_to_save") ? config.texts("modules_to_save") : std::vector<std::string>();
  for (const std::string& head : heads_of(config))
    if (std::find(names.begin(), names.end(), head) == names.end()) names.push_back(head);
  return names;
}

bool is_within(const std::string& path, const std::string& name) {
  for (size_t end = path.find('.');; end = path.find('.', end + 1)) {
    if (path.substr(0, end).ends_with(name)) return true;
    if (end == std::string::npos) return false;
  }
}

bool shares_tokens(const std::vector<Layer>& layers, size_t i) {
  return layers[i].kind == LayerKind::linear && std::any_of(layers.begin(), layers.end(), [&](const Layer& other) {
           return other.kind == LayerKind::embedding && other.base.weight.is_alias_of(layers[i].base.weight);
         });
}

std::vector<int64_t> token_ids(const formats::Config& config, const std::string& field, const nlohmann::json& list, const Layer& layer) {
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), [](const auto& id) { return id.is_number_integer(); }))
    config.fail(field, "is not a list of integers");
  auto ids = list.get<std::vector<int64_t>>();
  if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size()) config.fail(field, "names a token twice");
  for (int64_t id : ids)
    if (id < 0 || id >= layer.base.weight.size(0)) config.fail(field, "holds " + std::to_string(id) + ", which is not a token");
  return ids;
}

std::vector<TrainedTokens> trained_tokens(const formats::Config& config, const std::vector<Layer>& layers) {
  const std::string kField = "trainable_token_indices";
  std::vector<TrainedTokens> out;
  if (!config.has(kField)) return out;
  const nlohmann::json& value = config.any(kField);
  if (!value.is_object()) {
    auto first = std::find_if(layers.begin(), layers.end(), [](const Layer& layer) { return layer.kind == LayerKind::embedding; });
    if (first == layers.end()) config.fail(kField, "is set, but the model has no embedding");
    return {{static_cast<size_t>(first - layers.begin()), token_ids(config, kField, value, *first)}};
  }
  for (const auto& [name, list] : value.items()) {
    bool is_any = false;
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      bool has_tokens = layer.kind == LayerKind::embedding || layer.kind == LayerKind::linear;
      if (!has_tokens || !(layer.path == name || layer.path.ends_with("." + name))) continue;
      is_any = true;
      if (!shares_tokens(layers, i)) out.push_back({i, token_ids(config, kField, list, layer)});
    }
    if (!is_any) config.fail(kField, "names \"" + name + "\", which is not an embedding or linear layer of the model");
  }
  return out;
}

void add_tokens(const std::vector<Layer>& layers, const TrainedTokens& tokens, const at::Tensor& rows, const std::string& key,
                LoadedAdapter& loaded) {
  at::Tensor which = at::tensor(tokens.ids, at::kLong);
  const Layer& layer = layers[tokens.layer];
  loaded.layer_adapters[tokens.layer].push_back(make_tokens(which, rows, key));
  for (size_t k = 0; layer.kind == LayerKind::embedding && k < layers.size(); ++k)
    if (shares_tokens(layers, k) && layers[k].base.weight.is_alias_of(layer.base.weight))
      loaded.layer_adapters[k].push_back(make_tokens(which, rows, ""));
}

void take_extras(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets,
                 LoadedAdapter& loaded) {
  take_copies(config, files, layers, loaded);
  take_biases(config, files, layers, targets, loaded);
  take_whole_weights(files, layers, targets, loaded);
  take_tokens(config, files, layers, loaded);
}

}  // namespace tenon::adapters
