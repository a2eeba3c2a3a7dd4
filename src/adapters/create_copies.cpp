// Copies of the base that PEFT's file of a new adapter holds besides the method's own tensors.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "adapters/create.h"
#include "adapters/extras.h"
#include "adapters/refuse.h"
#include "adapters/targets.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

class Copies {
 public:
  Copies(const formats::Config& config, const std::string& name, const ChosenLayers& chosen, const ModelFacts& model, NewTensors& tensors)
      : config_(config), name_(name), chosen_(chosen), model_(model), tensors_(tensors), saved_names_(saved_modules(config)) {}

  void add() {
    add_saved_modules();
    add_biases();
    add_embeddings();
    add_tokens();
  }

 private:
  bool is_target(size_t i) const { return std::find(chosen_.indices.begin(), chosen_.indices.end(), i) != chosen_.indices.end(); }

  // Returns the path of the outermost module that contains the layer, or is the layer, and that modules_to_save names.
  std::optional<std::string> saved_module(const std::string& path) const {
    for (size_t end = path.find('.');; end = path.find('.', end + 1)) {
      std::string module = path.substr(0, end);
      if (std::any_of(saved_names_.begin(), saved_names_.end(), [&](const std::string& name) { return module.ends_with(name); }))
        return module;
      if (end == std::string::npos) return {};
    }
  }

  // Whether the parameter is the weight or the bias of a layer, perhaps under another name.
  bool is_of_layer(const NamedTensor& parameter) const {
    return std::any_of(chosen_.layers.begin(), chosen_.layers.end(), [&](const Layer& layer) {
      if (parameter.key() == layer.path + ".weight" || parameter.key() == layer.path + ".bias") return true;
      return layer.base.bias.defined() && layer.base.bias.is_alias_of(parameter.value());
    });
  }

  void add_saved_modules() {
    for (size_t i = 0; i < chosen_.layers.size(); ++i) {
      const Layer& layer = chosen_.layers[i];
      if (!saved_module(layer.path)) continue;
      if (is_target(i))
        refuse(layer.path + " is chosen by target_modules and by modules_to_save. Remove it from one of them, or use exclude_modules.");
      tensors_.put_copy(kPrefix + layer.path + ".weight", layer.base.weight);
      if (layer.base.bias.defined()) tensors_.put_copy(kPrefix + layer.path + ".bias", layer.base.bias);
    }
    for (const NamedTensor& parameter : model_.parameters)
      if (saved_module(parameter.key().substr(0, parameter.key().rfind('.'))) && !is_of_layer(parameter))
        refuse("modules_to_save contains the parameter " + parameter.key() +
               ", which belongs to no layer that a bank can copy. Name only linear layers, embeddings, convolutions and norms.");
  }

  void add_biases() {
    std::string which = config_.has("bias") ? config_.text("bias") : "none";
    if (which == "none") return;
    for (size_t i = 0; i < chosen_.layers.size(); ++i) {
      const Layer& layer = chosen_.layers[i];
      if (!layer.base.bias.defined() || !(which == "all" || is_target(i))) continue;
      if (auto module = saved_module(layer.path)) add_repeated_bias(layer, *module);
      else tensors_.put_copy(kPrefix + layer.path + (is_target(i) ? ".base_layer.bias" : ".bias"), layer.base.bias);
    }
    for (const NamedTensor& parameter : model_.parameters)
      if (which == "all" && (parameter.key() == "bias" || parameter.key().ends_with(".bias")) && !is_of_layer(parameter))
        refuse("bias \"all\" includes " + parameter.key() +
               ", which belongs to no layer that a bank can adapt. Use \"none\" or the biases " +
               "of the targets, for example \"lora_only\".");
  }

  // PEFT writes the bias of a copied layer twice more. The adapter's name is removed if it is the last part but one.
  void add_repeated_bias(const Layer& layer, const std::string& module) {
    std::string inside = layer.path.substr(module.size()), at = kPrefix + module;
    tensors_.put_base(at + ".original_module" + inside + ".bias", layer.base.bias);
    tensors_.put_copy(at + ".modules_to_save" + (inside.empty() ? "" : "." + name_ + inside) + ".bias", layer.base.bias);
  }

  // PEFT writes the whole weight of an adapted embedding or output layer if target_modules names it in this way.
  bool embedding_is_named() const {
    if (model_.model_type.empty() || config_.has("trainable_token_indices") || config_.text("peft_type") == "TRAINABLE_TOKENS")
      return false;
    ModuleNames targets = ModuleNames::read(config_, "target_modules");
    for (const char* name : {"embed_tokens", "lm_head"}) {
      if (targets.has(name)) return true;
      for (const Layer& layer : chosen_.layers)
        if (targets.is_pattern() && layer.path.substr(layer.path.rfind('.') + 1) == name && targets.match(layer.path)) return true;
    }
    return false;
  }

  void add_embeddings() {
    if (!embedding_is_named()) return;
    bool is_first = true;
    for (size_t i = 0; i < chosen_.layers.size(); ++i) {
      const Layer& layer = chosen_.layers[i];
      bool is_input = layer.kind == LayerKind::embedding && std::exchange(is_first, false);
      if (is_target(i) && (is_input || layer.path == model_.output_embedding))
        tensors_.put_base(kPrefix + layer.path + ".base_layer.weight", layer.base.weight);
    }
  }

  void add_tokens() {
    for (const TrainedTokens& tokens : trained_tokens(config_, chosen_.layers)) {
      const Layer& layer = chosen_.layers[tokens.layer];
      if (is_target(tokens.layer) || saved_module(layer.path))
        refuse(layer.path + " is chosen by trainable_token_indices and by target_modules or modules_to_save. Remove it from one of them.");
      tensors_.put(layer, kTokensKey, layer.base.weight.index_select(0, at::tensor(tokens.ids, at::kLong)));
    }
    if (!config_.has("trainable_token_indices") || !config_.any("trainable_token_indices").is_object()) return;
    // A layer that shares an embedding's weight has the embedding's tokens.
    const nlohmann::json& by_name = config_.any("trainable_token_indices");
    for (const auto& [name, ids] : by_name.items())
      for (size_t i = 0; i < chosen_.layers.size(); ++i) {
        const std::string& path = chosen_.layers[i].path;
        bool is_named = path == name || path.ends_with("." + name);
        bool is_known = std::count(by_name.begin(), by_name.end(), ids) > 1;
        if (is_named && shares_tokens(chosen_.layers, i) && !is_known)
          refuse(path + " shares the weight of an embedding. Give both the same trainable_token_indices, or name only the embedding.");
      }
  }

  const formats::Config& config_;
  const std::string& name_;
  const ChosenLayers& chosen_;
  const ModelFacts& model_;
  NewTensors& tensors_;
  std::vector<std::string> saved_names_;
};

}  // namespace

void add_copies(const formats::Config& config, const std::string& name, const ChosenLayers& chosen, const ModelFacts& model,
                NewTensors& tensors) {
  Copies(config, name, chosen, model, tensors).add();
}

}  // namespace tenon::adapters
