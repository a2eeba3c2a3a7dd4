#include "adapters/directory.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <unordered_set>

#include "adapters/adalora/adalora.h"
#include "adapters/boft/boft.h"
#include "adapters/extras.h"
#include "adapters/hra/hra.h"
#include "adapters/ia3/ia3.h"
#include "adapters/ln_tuning/ln_tuning.h"
#include "adapters/lokr/lokr.h"
#include "adapters/lora/lora.h"
#include "adapters/method.h"
#include "adapters/oft/oft.h"
#include "adapters/targets.h"
#include "adapters/trainable_tokens/trainable_tokens.h"
#include "adapters/vera/vera.h"
#include "base/error.h"
#include "formats/json.h"
#include "formats/safetensors_writer.h"
#include "models/weights.h"

namespace tenon::adapters {

namespace {

// Fields that do not change what any method computes. eva_config describes the initialization of A, whose result is in the file.
constexpr const char* kHarmless[] = {"auto_mapping", "base_model_name_or_path", "eva_config", "inference_mode", "peft_version", "peft_type",
                                     "revision",     "runtime_config",          "task_type"};

// Fields of variants that are switched off, with their values in that case.
const std::map<std::string, nlohmann::json>& switched_off() {
  static const std::map<std::string, nlohmann::json> all = {{"megatron_core", "megatron.core"}, {"qalora_group_size", 16}};
  return all;
}

void refuse_unread(const formats::Config& config) {
  for (const formats::Config::Field& field : config.unread()) {
    const nlohmann::json& value = *field.value;
    bool says_nothing = value.is_null() || value == false || (value.is_structured() && value.empty());
    bool is_harmless = std::find(std::begin(kHarmless), std::end(kHarmless), field.name) != std::end(kHarmless);
    auto off = switched_off().find(field.name);
    if (says_nothing || is_harmless || (off != switched_off().end() && off->second == value)) continue;
    throw UserError(ErrorCode::adapter, "adapter_config.json: the field \"" + field.name + "\" is " + value.dump() +
                                            ", which is not supported and may change what the adapter computes. Remove it if it does not.");
  }
}

std::vector<Targets::Path> all_paths(const std::vector<Layer>& layers) {
  std::vector<Targets::Path> out;
  for (const Layer& layer : layers) {
    bool is_head = layer.path == "lm_head" || layer.path == "classifier" || layer.path == "score";
    out.push_back({layer.path, layer.is_linear(), is_head});
  }
  return out;
}

}  // namespace

std::vector<std::string> ChosenLayers::paths() const {
  std::vector<std::string> out;
  for (size_t i : indices) out.push_back(layers[i].path);
  return out;
}

std::string layer_names(const std::vector<Layer>& layers) {
  std::vector<std::string> paths;
  for (const Layer& layer : layers) paths.push_back(layer.path);
  return last_names(paths);
}

void refuse_layer(const Layer& layer, const std::string& method) {
  const char* kinds[] = {"a linear layer", "a Conv1D layer", "an embedding", "a norm", "a norm", "a convolution"};
  throw UserError(ErrorCode::adapter, layer.path + " is " + kinds[static_cast<size_t>(layer.kind)] + ", which " + method +
                                          " does not support. Remove it from target_modules.");
}

void need_linear_or_conv(const Layer& layer, const std::string& method) {
  if (layer.kind != LayerKind::linear && layer.kind != LayerKind::conv2d) refuse_layer(layer, method);
}

const Method& find_method(const std::string& peft_type) {
  static const std::map<std::string, Method> all = {
#define TENON_METHOD(name, config, load, create) {name, {load, create, [] { return to_json(config{}); }}},
#include "adapters/methods.def"
#undef TENON_METHOD
  };
  auto found = all.find(peft_type);
  if (found != all.end()) return found->second;
  std::string known;
  for (const auto& [name, method] : all) known += (known.empty() ? "" : ", ") + name;
  throw UserError(ErrorCode::adapter, "adapter_config.json: peft_type \"" + peft_type + "\" is not supported. Supported are " + known);
}

std::vector<size_t> choose_layers(const formats::Config& config, const std::vector<Layer>& layers, Unmatched unmatched) {
  std::vector<std::string> chosen = Targets(config).choose(all_paths(layers), unmatched);
  std::unordered_set<std::string_view> is_chosen(chosen.begin(), chosen.end());
  std::vector<size_t> out;
  for (size_t i = 0; i < layers.size(); ++i)
    if (is_chosen.contains(layers[i].path)) out.push_back(i);
  return out;
}

AdapterPointer make_adapter(const std::string& name, const std::string& text, Files files, const std::vector<Layer>& layers,
                            const LoadOptions& options) {
  auto config = formats::Config::parse(text, "adapter_config.json");
  find_method(config.text("peft_type"));  // An unknown method is reported before its targets.
  std::vector<size_t> targets = choose_layers(config, layers, options.unmatched_patterns);
  return make_adapter(name, config, text, std::move(files), layers, targets, options.unmatched_patterns);
}

AdapterPointer make_adapter(const std::string& name, const formats::Config& config, const std::string& text, Files files,
                            const std::vector<Layer>& layers, const std::vector<size_t>& targets, Unmatched unmatched) {
  LoadedAdapter loaded;
  take_extras(config, files, layers, targets, loaded);
  LoadedAdapter own = find_method(config.text("peft_type")).load(config, files, {layers, targets, unmatched});
  files.refuse_rest();
  refuse_unread(config);
  auto adapter = std::make_shared<Adapter>();
  adapter->name = name;
  adapter->config = text;
  adapter->layer_adapters.resize(layers.size());
  for (auto& [i, layer_adapters] : loaded.layer_adapters) adapter->layer_adapters[i] = std::move(layer_adapters);
  for (auto& [i, layer_adapters] : own.layer_adapters)
    for (LayerAdapterPointer& layer_adapter : layer_adapters) {
      auto tensors = layer_adapter->tensors();
      for (const auto& [tensor_name, tensor] : tensors)
        if (tensor.scalar_type() != tensors[0].second.scalar_type())
          throw UserError(ErrorCode::adapter, "adapter_model.safetensors: tensors of " + layers[i].path +
                                                  " are of different types. Save the adapter in one type.");
      adapter->has_input_transform |= layer_adapter->is_input_transform();
      adapter->layer_adapters[i].push_back(std::move(layer_adapter));
    }
  adapter->shared = std::move(loaded.shared);
  adapter->shared.insert(adapter->shared.end(), own.shared.begin(), own.shared.end());
  adapter->repeated = std::move(loaded.repeated);
  adapter->repeated.merge(own.repeated);
  return adapter;
}

AdapterPointer read_adapter(const std::string& name, const std::string& path, const std::vector<Layer>& layers,
                            const LoadOptions& options) {
  formats::Directory directory(path);
  return make_adapter(name, directory.read_text("adapter_config.json", formats::kConfigLimits.bytes), Files(directory), layers, options);
}

std::map<std::string, at::Tensor> tensors_of(const Adapter& adapter, const std::vector<Layer>& layers) {
  std::map<std::string, at::Tensor> out(adapter.shared.begin(), adapter.shared.end());
  for (size_t i = 0; i < layers.size(); ++i)
    for (const LayerAdapterPointer& layer_adapter : adapter.layer_adapters[i])
      for (const auto& [name, tensor] : layer_adapter->tensors())
        if (!name.empty()) out[kPrefix + layers[i].path + "." + name] = tensor;
  for (const auto& [name, original] : adapter.repeated) out[name] = out.at(original);
  return out;
}

void write_adapter(const Adapter& adapter, const std::string& path, const std::vector<Layer>& layers) {
  std::map<std::string, at::Tensor> tensors = tensors_of(adapter, layers);
  std::string config = adapter.config;
  drop_pruned_ranks(adapter, tensors, config);
  std::vector<formats::TensorView> views;
  for (auto& [name, tensor] : tensors) views.push_back(models::view_of(name, tensor = tensor.contiguous()));
  std::filesystem::create_directories(path);
  formats::Directory directory(path);
  formats::write_safetensors(directory, "adapter_model.safetensors", views, formats::Metadata{{"format", "pt"}});
  directory.write("adapter_config.json", config);
}

}  // namespace tenon::adapters
