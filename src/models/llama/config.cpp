// Reads the configuration of a Llama, a Mistral, a Qwen2 or a Qwen3.
#include "models/llama/config.h"

#include <algorithm>

namespace tenon::models {

namespace {

// Transformers 5 stores everything in rope_parameters; older versions store the base separately from rope_scaling.
Rope read_rope_of_all_layers(const Fields& fields) {
  const char* name = fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  double base = fields.number_or("rope_theta", 10000, 1, 1e12);
  return fields.has(name) ? read_rope(fields.object(name), base) : Rope{.base = base};
}

void need_silu(const Fields& fields) {
  if (fields.text_or("hidden_act", "silu") != "silu") fields.refuse("hidden_act", "must be \"silu\" for this family");
}

// Qwen's rule: layers from max_window_layers on have a window, if there is one.
void read_qwen_windows(const Fields& fields, LlamaConfig& c) {
  bool has_window = fields.boolean_or("use_sliding_window", false) && !fields.is_null("sliding_window");
  int64_t first = fields.integer_or("max_window_layers", 28);
  read_windows(fields, c, [&](int64_t layer) { return has_window && layer >= first; });
  if (c.window > 0 && !has_window) fields.refuse("layer_types", "has sliding_attention, but use_sliding_window is false");
}

}  // namespace

Rope read_rope(const Fields& given, double base) {
  Rope rope;
  rope.base = given.number_or("rope_theta", base, 1, 1e12);
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

void read_windows(const Fields& fields, LlamaConfig& c, const std::function<bool(int64_t)>& is_windowed) {
  if (!fields.has("layer_types")) {
    for (int64_t i = 0; i < c.layers; ++i) c.windowed[static_cast<size_t>(i)] = is_windowed(i);
  } else {
    std::vector<std::string> types = fields.texts("layer_types");
    if (types.size() != c.windowed.size())
      fields.refuse("layer_types", "has " + std::to_string(types.size()) + " entries for " + std::to_string(c.layers) + " layers");
    for (size_t i = 0; i < types.size(); ++i) {
      c.windowed[i] = types[i] == "sliding_attention";
      if (!c.windowed[i] && types[i] != "full_attention")
        fields.refuse("layer_types", "\"" + types[i] + "\" is not supported; supported are full_attention and sliding_attention");
    }
  }
  bool has_window = std::find(c.windowed.begin(), c.windowed.end(), true) != c.windowed.end();
  if (has_window && fields.is_null("sliding_window")) fields.refuse("sliding_window", "is null, but there are layers with a window");
  if (has_window) c.window = fields.integer_or("sliding_window", 4096, 1);
  else fields.ignore({"sliding_window"});
}

LlamaConfig read_decoder(const Fields& fields, const DecoderDefaults& defaults) {
  LlamaConfig c{};
  c.vocabulary = fields.integer("vocab_size");
  c.width = fields.integer("hidden_size");
  c.inner = fields.integer("intermediate_size");
  c.layers = fields.integer("num_hidden_layers", 1, 4096);
  c.heads = fields.integer("num_attention_heads", 1, 1 << 20);
  c.kv_heads = c.heads;
  if (!fields.is_null("num_key_value_heads"))
    c.kv_heads = fields.integer_or("num_key_value_heads", defaults.kv_heads.value_or(c.heads), 1, c.heads);
  if (c.heads % c.kv_heads) fields.refuse("num_key_value_heads", "does not divide num_attention_heads");
  bool has_head_size = fields.has("head_dim") || defaults.head_size;
  if (!has_head_size && c.width % c.heads) fields.refuse("num_attention_heads", "does not divide hidden_size");
  c.head_size = fields.integer_or("head_dim", defaults.head_size.value_or(c.width / c.heads), 2, 1 << 16);
  if (c.head_size % 2) fields.refuse("head_dim", "is odd: rotary position embeddings rotate pairs of elements");
  c.positions = fields.integer("max_position_embeddings");
  c.epsilon = fields.number_or("rms_norm_eps", 1e-6, 0, 1);
  c.attention_dropout = fields.number_or("attention_dropout", 0, 0, 1);
  c.tied = fields.boolean_or("tie_word_embeddings", defaults.tied);
  c.query_bias = c.output_bias = defaults.has_attention_bias && fields.boolean_or("attention_bias", false);
  c.act = activation("silu");
  if (defaults.has_one_rope) c.rope = read_rope_of_all_layers(fields);
  c.windowed.assign(static_cast<size_t>(c.layers), true);
  fields.ignore({"pretraining_tp"});
  return c;
}

LlamaConfig read_llama(const Fields& fields) {
  LlamaConfig c = read_decoder(fields, {});
  need_silu(fields);
  c.mlp_bias = fields.boolean_or("mlp_bias", false);
  return c;
}

LlamaConfig read_mistral(const Fields& fields) {
  LlamaConfig c = read_decoder(fields, {.kv_heads = 8, .has_attention_bias = false});
  need_silu(fields);
  if (!fields.is_null("sliding_window")) c.window = fields.integer_or("sliding_window", 4096, 1);
  return c;
}

LlamaConfig read_qwen2(const Fields& fields) {
  LlamaConfig c = read_decoder(fields, {.kv_heads = 32, .has_attention_bias = false});
  need_silu(fields);
  c.query_bias = true;
  read_qwen_windows(fields, c);
  return c;
}

LlamaConfig read_qwen3(const Fields& fields) {
  LlamaConfig c = read_decoder(fields, {.kv_heads = 32, .head_size = 128});
  need_silu(fields);
  c.has_head_norms = true;
  read_qwen_windows(fields, c);
  return c;
}

}  // namespace tenon::models
