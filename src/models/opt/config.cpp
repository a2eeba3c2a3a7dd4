// Reads the configuration of an OPT.
#include "models/classifier.h"
#include "models/opt/model.h"

namespace tenon::models {

namespace {

// Files that were saved without the head lack the first segment of the names.
std::string opt_file_name(const std::string& name) {
  constexpr std::string_view prefix = "model.";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

Weights opt_weights(const Weights& weights) {
  return weights.has("model.decoder.embed_tokens.weight") ? weights : weights.renamed(opt_file_name);
}

OptConfig read_opt(const Fields& fields) {
  OptConfig c{};
  c.vocabulary = fields.integer("vocab_size");
  c.width = fields.integer("hidden_size");
  c.embedding_width = fields.integer_or("word_embed_proj_dim", c.width, 1);
  c.inner = fields.integer("ffn_dim");
  c.layers = fields.integer("num_hidden_layers", 1, 4096);
  c.heads = fields.integer("num_attention_heads", 1, 1 << 20);
  if (c.width % c.heads) fields.refuse("num_attention_heads", "does not divide hidden_size");
  c.positions = fields.integer("max_position_embeddings");
  c.attention_dropout = fields.number_or("attention_dropout", 0, 0, 1);
  c.dropout = fields.number_or("dropout", 0.1, 0, 1);
  c.act = activation(fields.text_or("activation_function", "relu"));
  c.has_bias = fields.boolean_or("enable_bias", true);
  c.norms_first = fields.boolean_or("do_layer_norm_before", true);
  c.has_final_norm = c.norms_first && !fields.boolean_or("_remove_final_layer_norm", false);
  c.tied = fields.boolean_or("tie_word_embeddings", true);
  if (!fields.boolean_or("layer_norm_elementwise_affine", true)) fields.refuse("layer_norm_elementwise_affine", "false is not supported");
  if (fields.number_or("layerdrop", 0, 0, 1) != 0) fields.refuse("layerdrop", "is not supported: layers cannot be skipped. Set it to 0");
  fields.ignore({"init_std", "activation_dropout", "prefix"});  // Transformers does not use these in OPT. Published files have them.
  return c;
}

constexpr int64_t kDefaultPadToken = 1;

}  // namespace

std::shared_ptr<Model> make_opt(const Fields& fields, const Weights& weights) {
  return std::make_shared<Opt>(read_opt(fields), opt_weights(weights));
}

std::shared_ptr<Model> make_opt_classifier(const Fields& fields, const Weights& weights) {
  OptConfig c = read_opt(fields);
  return std::make_shared<SequenceClassifier<OptBody>>(c, read_classifier(fields, c.embedding_width, kDefaultPadToken),
                                                       opt_weights(weights), "model");
}

}  // namespace tenon::models
