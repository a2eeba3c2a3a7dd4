// Tensors that an adapter of any method may have in addition: trained biases, copies of whole layers, trained tokens.
#pragma once

#include <string>
#include <vector>

#include "adapters/method.h"

namespace tenon::adapters {

// Adds the layer adapters of these tensors to `loaded`. They act before the method's own, in the order in which they are added.
void take_extras(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets,
                 LoadedAdapter& loaded);

// The modules that PEFT adds to modules_to_save by itself for a task_type.
std::vector<std::string> heads_of(const std::string& task);
std::vector<std::string> heads_of(const formats::Config& config);
// The names in modules_to_save and the heads of the task.
std::vector<std::string> saved_modules(const formats::Config& config);
// Whether the path of the layer, or of a module that contains it, ends with the name, after a dot or not.
bool is_within(const std::string& path, const std::string& name);

// Tokens of one layer that are trained.
struct TrainedTokens {
  size_t layer;
  std::vector<int64_t> ids;
};
inline constexpr const char* kTokensKey = "token_adapter.trainable_tokens_delta";  // Follows the layer's path in the file.
// Whether the layer is linear and shares the weight, and so the trained tokens, of an embedding.
bool shares_tokens(const std::vector<Layer>& layers, size_t i);
// Reads a list of token ids of the layer from a field.
std::vector<int64_t> token_ids(const formats::Config& config, const std::string& field, const nlohmann::json& list, const Layer& layer);
// Reads trainable_token_indices: ids for the input embedding, or for each named layer: embeddings, and linear layers whose outputs are
// tokens. An output layer that shares an embedding's weight is left out, because it uses the embedding's tokens.
std::vector<TrainedTokens> trained_tokens(const formats::Config& config, const std::vector<Layer>& layers);
// Adds the tokens to their layer and to the output layers that share its weight. `key` is the name of the rows in the file.
void add_tokens(const std::vector<Layer>& layers, const TrainedTokens& tokens, const at::Tensor& rows, const std::string& key,
                LoadedAdapter& loaded);

}  // namespace tenon::adapters
