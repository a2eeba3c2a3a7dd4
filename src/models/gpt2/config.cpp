// Reads the configuration of a GPT-2.
#include "models/gpt2/model.h"

namespace tenon::models {

namespace {

// Files that were saved without the head lack the first segment of the names.
std::string gpt2_file_name(const std::string& name) {
  constexpr std::string_view prefix = "transformer.";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

Weights gpt2_weights(const Weights& weights) { return weights.has("transformer.wte.weight") ? weights : weights.renamed(gpt2_file_name); }

Gpt2Config read_gpt2(const Fields& fields) {
  Gpt2Config c{};
  c.vocabulary = fields.integer("vocab_size");
  c.width = fields.integer("n_embd");
  c.inner = fields.integer_or("n_inner", 4 * c.width, 1);
  c.layers = fields.integer("n_layer", 1, 4096);
  c.heads = fields.integer("n_head", 1, 1 << 20);
  if (c.width % c.heads) fields.refuse("n_head", "does not divide n_embd");
  c.positions = fields.integer("n_positions");
  c.epsilon = fields.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  c.attention_dropout = fields.number_or("attn_pdrop", 0.1, 0, 1);
  c.embedding_dropout = fields.number_or("embd_pdrop", 0.1, 0, 1);
  c.residual_dropout = fields.number_or("resid_pdrop", 0.1, 0, 1);
  c.act = activation(fields.text_or("activation_function", "gelu_new"));
  c.tied = fields.boolean_or("tie_word_embeddings", true);
  if (!fields.boolean_or("scale_attn_weights", true)) fields.refuse("scale_attn_weights", "false is not supported");
  for (const char* name : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"})
    if (fields.boolean_or(name, false)) fields.refuse(name, "true is not supported");
  fields.ignore({"n_ctx", "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"});
  return c;
}

}  // namespace

std::shared_ptr<Model> make_gpt2(const Fields& fields, const Weights& weights) {
  return std::make_shared<Gpt2>(read_gpt2(fields), gpt2_weights(weights));
}

std::shared_ptr<Model> make_gpt2_classifier(const Fields& fields, const Weights& weights) {
  Gpt2Config c = read_gpt2(fields);
  return std::make_shared<SequenceClassifier<Gpt2Transformer>>(c, read_classifier(fields, c.width, {}), gpt2_weights(weights),
                                                               "transformer");
}

}  // namespace tenon::models
