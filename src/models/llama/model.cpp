#include "models/llama/model.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <cmath>

namespace tenon::models {

CausalModel::Sizes LlamaConfig::sizes() const {
  bool has_full_layers = std::find(windowed.begin(), windowed.end(), false) != windowed.end();
  return {layers, kv_heads, head_size, positions, vocabulary, window, has_full_layers};
}

LlamaAttention::LlamaAttention(const LlamaConfig& c, const Weights& from, size_t layer)
    : head_size_(c.head_size),
      layer_(layer),
      options_{c.attention_dropout, c.scale, c.score_softcap, c.windowed[layer]},
      q_proj_(from / "q_proj", c.width, c.heads * c.head_size, c.query_bias),
      k_proj_(from / "k_proj", c.width, c.kv_heads * c.head_size, c.query_bias),
      v_proj_(from / "v_proj", c.width, c.kv_heads * c.head_size, c.query_bias),
      o_proj_(from / "o_proj", c.heads * c.head_size, c.width, c.output_bias) {
  put_child("q_proj", q_proj_), put_child("k_proj", k_proj_), put_child("v_proj", v_proj_), put_child("o_proj", o_proj_);
  if (!c.has_head_norms) return;
  put_child("q_norm", q_norm_.emplace(from / "q_norm", c.head_size, c.epsilon, c.norm_factor));
  put_child("k_norm", k_norm_.emplace(from / "k_norm", c.head_size, c.epsilon, c.norm_factor));
}

at::Tensor LlamaAttention::heads(const Linear& projection, const std::optional<RmsNorm>& norm, const at::Tensor& x) const {
  at::Tensor out = projection.forward(x).view({x.size(0), x.size(1), -1, head_size_});
  return (norm ? norm->forward(out) : out).transpose(1, 2);
}

at::Tensor LlamaAttention::forward(const at::Tensor& x, const RopeAngles& angles, const AttentionContext& context) const {
  at::Tensor q = rotate(heads(q_proj_, q_norm_, x), angles), k = rotate(heads(k_proj_, k_norm_, x), angles);
  at::Tensor v = split_heads(v_proj_.forward(x), head_size_);
  AttentionOptions options = options_;
  if (!is_training()) options.dropout = 0;
  return o_proj_.forward(attend_with_cache(context, layer_, q, k, v, options));
}

LlamaMlp::LlamaMlp(const LlamaConfig& c, const Weights& from)
    : act_(c.act),
      gate_proj_(from / "gate_proj", c.width, c.inner, c.mlp_bias),
      up_proj_(from / "up_proj", c.width, c.inner, c.mlp_bias),
      down_proj_(from / "down_proj", c.inner, c.width, c.mlp_bias) {
  put_child("gate_proj", gate_proj_), put_child("up_proj", up_proj_), put_child("down_proj", down_proj_);
}

LlamaLayer::LlamaLayer(const LlamaConfig& c, const Weights& from, size_t layer)
    : is_windowed_(c.windowed[layer]),
      self_attn_(c, from / "self_attn", layer),
      mlp_(c, from / "mlp"),
      input_layernorm_(from / "input_layernorm", c.width, c.epsilon, c.norm_factor),
      post_attention_layernorm_(from / "post_attention_layernorm", c.width, c.epsilon, c.norm_factor) {
  put_child("self_attn", self_attn_), put_child("mlp", mlp_);
  put_child("input_layernorm", input_layernorm_), put_child("post_attention_layernorm", post_attention_layernorm_);
  if (!c.has_result_norms) return;
  auto put_norm = [&](const char* name, std::optional<RmsNorm>& norm) {
    put_child(name, norm.emplace(from / name, c.width, c.epsilon, c.norm_factor));
  };
  put_norm("pre_feedforward_layernorm", pre_feedforward_layernorm_);
  put_norm("post_feedforward_layernorm", post_feedforward_layernorm_);
}

at::Tensor LlamaLayer::forward(const at::Tensor& x, const RopeAngles& angles, const AttentionContext& context) const {
  at::Tensor attended = self_attn_.forward(input_layernorm_.forward(x), angles, context);
  if (!pre_feedforward_layernorm_) {
    at::Tensor h = x + attended;
    return h + mlp_.forward(post_attention_layernorm_.forward(h));
  }
  at::Tensor h = x + post_attention_layernorm_.forward(attended);
  return h + post_feedforward_layernorm_->forward(mlp_.forward(pre_feedforward_layernorm_->forward(h)));
}

LlamaDecoder::LlamaDecoder(const LlamaConfig& c, const Weights& from)
    : embed_tokens(from / "embed_tokens", c.vocabulary, c.width),
      norm_(from / "norm", c.width, c.epsilon, c.norm_factor),
      frequencies_(rope_frequencies(c.rope, c.head_size)) {
  if (c.window_rope) window_frequencies_ = rope_frequencies(*c.window_rope, c.head_size);
  // Transformers rounds the factor to f32 and then to the type of the weights.
  if (c.scales_embeddings)
    embedding_scale_ =
        at::full({}, std::sqrt(static_cast<double>(c.width)), at::kFloat).to(embed_tokens.weight.scalar_type()).item<double>();
  for (int64_t i = 0; i < c.layers; ++i) layers_.add(c, from / "layers" / i, static_cast<size_t>(i));
  put_child("embed_tokens", embed_tokens), put_child("layers", layers_), put_child("norm", norm_);
}

at::Tensor LlamaDecoder::forward(const at::Tensor& ids, const AttentionContext& context) const {
  at::Tensor x = embed_tokens.forward(ids);
  if (embedding_scale_ != 1) x = x * embedding_scale_;
  RopeAngles angles = rope_angles(frequencies_, context.positions, x.scalar_type()), window_angles = angles;
  if (window_frequencies_.defined()) window_angles = rope_angles(window_frequencies_, context.positions, x.scalar_type());
  for (const auto& layer : layers_) x = layer->forward(x, layer->is_windowed() ? window_angles : angles, context);
  return norm_.forward(x);
}

Llama::Llama(const LlamaConfig& c, const Weights& from)
    : CausalModel(c.sizes()),
      tied_(c.tied),
      softcap_(c.logit_softcap),
      model_(c, from / "model"),
      lm_head_(tied_or_own(c.tied, model_.embed_tokens, from / "lm_head")) {
  put_child("model", model_), put_child("lm_head", lm_head_);
}

at::Tensor Llama::logits(const at::Tensor& hidden) {
  at::Tensor out = lm_head_.forward(hidden);
  return softcap_ == 0 ? out : at::tanh(out / softcap_) * softcap_;
}

}  // namespace tenon::models
