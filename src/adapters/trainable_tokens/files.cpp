#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include "adapters/config_text.h"
#include "adapters/extras.h"
#include "adapters/trainable_tokens/trainable_tokens.h"
#include "base/error.h"

namespace tenon::adapters {

namespace {

constexpr const char* kKey = "trainable_tokens_delta";

// Returns the tokens of each chosen layer.
std::vector<TrainedTokens> tokens_of(const formats::Config& config, const ChosenLayers& chosen) {
  std::vector<TrainedTokens> out;
  const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json& list = config.has("token_indices") ? config.any("token_indices") : none;
  for (size_t i : chosen.indices) {
    const Layer& layer = chosen.layers[i];
    if (layer.kind != LayerKind::embedding && layer.kind != LayerKind::linear) refuse_layer(layer, "trainable tokens");
    if (shares_tokens(chosen.layers, i))
      config.fail("target_modules", "chooses " + layer.path + ", which shares the weight of an embedding. Choose only the embedding");
    out.push_back({i, token_ids(config, "token_indices", list, layer)});
  }
  return out;
}

std::string name_of(const Layer& layer) { return kPrefix + layer.path + "." + kKey; }

// Calls `f` for each output layer that shares the embedding's weight. PEFT's file has the tokens of both.
template <class F>
void for_each_sharing(const std::vector<Layer>& layers, const Layer& embedding, F f) {
  for (size_t i = 0; i < layers.size(); ++i)
    if (embedding.kind == LayerKind::embedding && shares_tokens(layers, i) && layers[i].base.weight.is_alias_of(embedding.base.weight))
      f(layers[i]);
}

}  // namespace

LoadedAdapter load_trainable_tokens(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  config.boolean_or("init_weights", true);  // The file has the trained values.
  LoadedAdapter out;
  for (const TrainedTokens& tokens : tokens_of(config, chosen)) {
    const Layer& layer = chosen.layers[tokens.layer];
    std::vector<int64_t> sizes = {static_cast<int64_t>(tokens.ids.size()), layer.base.weight.size(1)};
    at::Tensor rows = files.take(name_of(layer), sizes);
    add_tokens(chosen.layers, tokens, rows, kKey, out);
    for_each_sharing(chosen.layers, layer, [&](const Layer& other) {
      if (!files.has(name_of(other))) return;
      if (!at::equal(files.take(name_of(other), sizes), rows))
        throw UserError(ErrorCode::adapter, "adapter_model.safetensors: tensors \"" + name_of(layer) + "\" and \"" + name_of(other) +
                                                "\" are the same tokens and differ. Save the adapter with PEFT again.");
      out.repeated[name_of(other)] = name_of(layer);
    });
  }
  return out;
}

void create_trainable_tokens(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  bool is_random = !config.boolean_or("init_weights", true);
  for (const TrainedTokens& one : tokens_of(config, chosen)) {
    const Layer& layer = chosen.layers[one.layer];
    const at::Tensor& weight = layer.base.weight;
    at::Tensor rows = is_random ? at::randn({static_cast<int64_t>(one.ids.size()), weight.size(1)}, weight.scalar_type())
                                : weight.index_select(0, at::tensor(one.ids, at::kLong));
    tensors.put(layer, kKey, rows);
    for_each_sharing(chosen.layers, layer, [&](const Layer& other) { tensors.put(other, kKey, rows); });
  }
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const TrainableTokensConfig& config) {
  adapters::OrderedJson out = adapters::shared_fields("TRAINABLE_TOKENS", config);
  out["token_indices"] = config.token_indices;
  out["init_weights"] = config.init_weights;
  return adapters::config_text(out);
}

}  // namespace tenon
