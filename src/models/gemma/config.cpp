#include "models/gemma/config.h"

#include <cmath>

#include "models/fields.h"
#include "models/llama/config.h"

namespace tenon::models {

namespace {

LlamaConfig read_common(const Fields& fields, const DecoderDefaults& defaults) {
  LlamaConfig c = read_decoder(fields, defaults);
  c.norm_factor = RmsNorm::Factor::one_plus_weight;
  c.scales_embeddings = true;
  c.default_pad_token = 0;
  if (fields.boolean_or("use_bidirectional_attention", false))
    fields.refuse("use_bidirectional_attention", "true is not supported: only causal attention is");
  fields.ignore({"cache_implementation"});
  return c;
}

// Returns 0 if there is no softcap. A field that is null differs from one that is missing.
double read_softcap(const Fields& fields, const char* name, double otherwise) {
  return fields.is_null(name) ? 0 : fields.number_or(name, otherwise, 1e-6, 1e9);
}

// What Gemma 2 and 3 share.
LlamaConfig read_common_of_2_and_3(const Fields& fields, bool has_one_rope) {
  LlamaConfig c = read_common(fields, {.kv_heads = 4, .head_size = 256, .tied = true, .has_one_rope = has_one_rope});
  c.act = activation(fields.text_or("hidden_activation", "gelu_pytorch_tanh"));
  c.has_result_norms = true;
  c.scale = std::pow(fields.number_or("query_pre_attn_scalar", 256, 1e-6, 1e9), -0.5);
  fields.ignore({"hidden_act", "sliding_window_size"});  // Transformers ignores these too. Published files have them.
  return c;
}

}  // namespace

LlamaConfig read_gemma(const Fields& fields) {
  LlamaConfig c = read_common(fields, {.kv_heads = 16, .head_size = 256, .tied = true});
  std::string act = fields.text_or("hidden_act", "gelu_pytorch_tanh");
  if (act == "gelu") act = "gelu_pytorch_tanh";  // The first files have the wrong name.
  if (fields.text_or("hidden_activation", act) != act)
    fields.refuse("hidden_activation", "is not " + act + ", which hidden_act says. Remove one of the two: Transformers uses hidden_act");
  c.act = activation(act);
  return c;
}

LlamaConfig read_gemma2(const Fields& fields) {
  LlamaConfig c = read_common_of_2_and_3(fields, /*has_one_rope=*/true);
  c.score_softcap = read_softcap(fields, "attn_logit_softcapping", 50);
  c.logit_softcap = read_softcap(fields, "final_logit_softcapping", 30);
  read_windows(fields, c, [](int64_t layer) { return layer % 2 == 0; });
  return c;
}

LlamaConfig read_gemma3(const Fields& fields) {
  if (fields.has("text_config")) {
    fields.ignore({"vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index"});
    Fields text = fields.object("text_config");
    ignore_harmless(text);
    return read_gemma3(text);
  }
  LlamaConfig c = read_common_of_2_and_3(fields, /*has_one_rope=*/false);
  c.has_head_norms = true;
  if (fields.has("attn_logit_softcapping"))
    fields.refuse("attn_logit_softcapping", "must be null for this family: Transformers does not apply it");
  c.logit_softcap = read_softcap(fields, "final_logit_softcapping", 0);
  int64_t period = fields.integer_or("sliding_window_pattern", 6, 1);
  if (fields.has("layer_types")) fields.ignore({"_sliding_window_pattern"});
  read_windows(fields, c, [&](int64_t layer) { return (layer + 1) % period != 0; });

  double base = fields.number_or("rope_theta", 1e6, 1, 1e12), window_base = fields.number_or("rope_local_base_freq", 1e4, 1, 1e12);
  c.rope = Rope{.base = base}, c.window_rope = Rope{.base = window_base};
  // Transformers 5 stores the parameters of both kinds of layers; older versions scale only layers without the window.
  if (fields.has("rope_parameters")) {
    Fields kinds = fields.object("rope_parameters");
    if (kinds.has("full_attention")) c.rope = read_rope(kinds.object("full_attention"), base);
    if (kinds.has("sliding_attention")) c.window_rope = read_rope(kinds.object("sliding_attention"), window_base);
  } else if (fields.has("rope_scaling")) {
    c.rope = read_rope(fields.object("rope_scaling"), base);
  }
  return c;
}

}  // namespace tenon::models
