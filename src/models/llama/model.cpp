#include "models/llama/model.h"

#include <ATen/ops/silu.h>

namespace tenon::models {

LlamaAttention::LlamaAttention(const LlamaConfig& c, const Weights& from, size_t layer)
    : head_size_(c.head_size),
      dropout_(c.attention_dropout),
      layer_(layer),
      q_proj_(from / "q_proj", c.width, c.heads * c.head_size, c.query_bias),
      k_proj_(from / "k_proj", c.width, c.kv_heads * c.head_size, c.query_bias),
      v_proj_(from / "v_proj", c.width, c.kv_heads * c.head_size, c.query_bias),
      o_proj_(from / "o_proj", c.heads * c.head_size, c.width, c.output_bias) {
  put_child("q_proj", q_proj_), put_child("k_proj", k_proj_), put_child("v_proj", v_proj_), put_child("o_proj", o_proj_);
}

at::Tensor LlamaAttention::forward(const at::Tensor& x, const RopeAngles& angles, const AttentionContext& context) const {
  at::Tensor q = rotate(split_heads(q_proj_.forward(x), head_size_), angles),
             k = rotate(split_heads(k_proj_.forward(x), head_size_), angles);
  at::Tensor v = split_heads(v_proj_.forward(x), head_size_);
  return o_proj_.forward(attend_with_cache(context, layer_, q, k, v, is_training() ? dropout_ : 0));
}

LlamaMlp::LlamaMlp(const LlamaConfig& c, const Weights& from)
    : gate_proj_(from / "gate_proj", c.width, c.inner, c.mlp_bias),
      up_proj_(from / "up_proj", c.width, c.inner, c.mlp_bias),
      down_proj_(from / "down_proj", c.inner, c.width, c.mlp_bias) {
  put_child("gate_proj", gate_proj_), put_child("up_proj", up_proj_), put_child("down_proj", down_proj_);
}

at::Tensor LlamaMlp::forward(const at::Tensor& x) const {
  return down_proj_.forward(at::silu(gate_proj_.forward(x)) * up_proj_.forward(x));
}

LlamaLayer::LlamaLayer(const LlamaConfig& c, const Weights& from, size_t layer)
    : self_attn_(c, from / "self_attn", layer),
      mlp_(c, from / "mlp"),
      input_layernorm_(from / "input_layernorm", c.width, c.epsilon),
      post_attention_layernorm_(from / "post_attention_layernorm", c.width, c.epsilon) {
  put_child("self_attn", self_attn_), put_child("mlp", mlp_);
  put_child("input_layernorm", input_layernorm_), put_child("post_attention_layernorm", post_attention_layernorm_);
}

at::Tensor LlamaLayer::forward(const at::Tensor& x, const RopeAngles& angles, const AttentionContext& context) const {
  at::Tensor h = x + self_attn_.forward(input_layernorm_.forward(x), angles, context);
  return h + mlp_.forward(post_attention_layernorm_.forward(h));
}

LlamaDecoder::LlamaDecoder(const LlamaConfig& c, const Weights& from)
    : embed_tokens(from / "embed_tokens", c.vocabulary, c.width),
      norm_(from / "norm", c.width, c.epsilon),
      frequencies_(rope_frequencies(c.rope, c.head_size)) {
  for (int64_t i = 0; i < c.layers; ++i) layers_.add(c, from / "layers" / i, static_cast<size_t>(i));
  put_child("embed_tokens", embed_tokens), put_child("layers", layers_), put_child("norm", norm_);
}

at::Tensor LlamaDecoder::forward(const at::Tensor& ids, const AttentionContext& context) const {
  at::Tensor x = embed_tokens.forward(ids);
  RopeAngles angles = rope_angles(frequencies_, context.positions, x.scalar_type());
  for (const auto& layer : layers_) x = layer->forward(x, angles, context);
  return norm_.forward(x);
}

Llama::Llama(const LlamaConfig& c, const Weights& from)
    : CausalModel({c.layers, c.kv_heads, c.head_size, c.positions, c.vocabulary, c.window}),
      tied_(c.tied),
      model_(c, from / "model"),
      lm_head_(tied_or_own(c.tied, model_.embed_tokens, from / "lm_head")) {
  put_child("model", model_), put_child("lm_head", lm_head_);
}

}  // namespace tenon::models
