// Reads the configuration of a Llama, a Mistral or a Qwen2.
#include "models/llama/model.h"

namespace tenon::models {

namespace {

// Transformers 5 stores everything in rope_parameters; older versions store the base separately from rope_scaling.
Rope read_rope(const Fields& fields) {
  Rope rope;
  const char* name = fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  rope.base = fields.number_or("rope_theta", 10000, 1, 1e12);
  if (!fields.has(name)) return rope;
  Fields given = fields.object(name);
  rope.base = given.number_or("rope_theta", rope.base, 1, 1e12);
  std::string type = given.text_or("rope_type", given.text_or("type", "default"));
  given.ignore({"type"});
  if (type == "linear") {
    rope.linear = given.number("factor", 1, 1e6);
  } else if (type == "llama3") {
    rope.llama3 = {given.number("factor", 1, 1e6), given.number("low_freq_factor", 1e-6, 1e6), given.number("high_freq_factor", 1e-6, 1e6),
                   given.number("original_max_position_embeddings", 1, 1e12)};
  } else if (type != "default") {
    given.refuse("rope_type", "\"" + type + "\" is not supported; supported are default, linear and llama3");
  }
  return rope;
}

void need_full_attention(const Fields& fields) {
  if (!fields.has("layer_types")) return;
  for (const std::string& type : fields.texts("layer_types"))
    if (type != "full_attention") fields.refuse("layer_types", "\"" + type + "\" is not supported; all layers must be full_attention");
}

}  // namespace

LlamaConfig read_llama_config(const Fields& fields) {
  LlamaConfig c{};
  c.vocabulary = fields.integer("vocab_size");
  c.width = fields.integer("hidden_size");
  c.inner = fields.integer("intermediate_size");
  c.layers = fields.integer("num_hidden_layers", 1, 4096);
  c.heads = fields.integer("num_attention_heads", 1, 1 << 20);
  c.kv_heads = fields.integer_or("num_key_value_heads", c.heads, 1, c.heads);
  if (c.heads % c.kv_heads) fields.refuse("num_key_value_heads", "does not divide num_attention_heads");
  if (!fields.has("head_dim") && c.width % c.heads) fields.refuse("num_attention_heads", "does not divide hidden_size");
  c.head_size = fields.integer_or("head_dim", c.width / c.heads, 2, 1 << 16);
  if (c.head_size % 2) fields.refuse("head_dim", "is odd: rotary position embeddings rotate pairs of elements");
  c.positions = fields.integer("max_position_embeddings");
  c.epsilon = fields.number_or("rms_norm_eps", 1e-6, 0, 1);
  c.attention_dropout = fields.number_or("attention_dropout", 0, 0, 1);
  c.tied = fields.boolean_or("tie_word_embeddings", false);
  if (fields.text_or("hidden_act", "silu") != "silu") fields.refuse("hidden_act", "must be \"silu\" for this family");
  c.rope = read_rope(fields);
  fields.ignore({"pretraining_tp"});
  return c;
}

std::shared_ptr<Model> make_llama(const Fields& fields, const Weights& weights) {
  LlamaConfig c = read_llama_config(fields);
  c.query_bias = c.output_bias = fields.boolean_or("attention_bias", false);
  c.mlp_bias = fields.boolean_or("mlp_bias", false);
  return std::make_shared<Llama>(c, weights);
}

std::shared_ptr<Model> make_mistral(const Fields& fields, const Weights& weights) {
  LlamaConfig c = read_llama_config(fields);
  c.window = fields.integer_or("sliding_window", 0, 1);
  return std::make_shared<Llama>(c, weights);
}

std::shared_ptr<Model> make_qwen2(const Fields& fields, const Weights& weights) {
  LlamaConfig c = read_llama_config(fields);
  c.query_bias = true;
  if (fields.boolean_or("use_sliding_window", false)) fields.refuse("use_sliding_window", "is not supported for this family");
  need_full_attention(fields);
  fields.ignore({"sliding_window", "max_window_layers"});
  return std::make_shared<Llama>(c, weights);
}

}  // namespace tenon::models
