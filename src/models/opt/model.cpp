#include "models/opt/model.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/rand.h>

#include <cmath>

#include "models/inputs.h"

namespace tenon::models {

namespace {

constexpr double kEpsilon = 1e-5;       // The default of torch.nn.LayerNorm.
constexpr int64_t kPositionOffset = 2;  // The first rows of the position embeddings belong to padding.

}  // namespace

OptAttention::OptAttention(const OptConfig& c, const Weights& from, size_t layer)
    : head_size_(c.width / c.heads),
      dropout_(c.attention_dropout),
      layer_(layer),
      k_proj_(from / "k_proj", c.width, c.width, c.has_bias),
      v_proj_(from / "v_proj", c.width, c.width, c.has_bias),
      q_proj_(from / "q_proj", c.width, c.width, c.has_bias),
      out_proj_(from / "out_proj", c.width, c.width, c.has_bias) {
  put_child("k_proj", k_proj_), put_child("v_proj", v_proj_), put_child("q_proj", q_proj_), put_child("out_proj", out_proj_);
}

at::Tensor OptAttention::forward(const at::Tensor& x, const AttentionContext& context) const {
  auto heads = [&](const at::Tensor& t) { return split_heads(t, head_size_); };
  // Queries are scaled before the product with keys, where bf16 rounds.
  at::Tensor q = heads(q_proj_.forward(x) * std::pow(static_cast<double>(head_size_), -0.5));
  at::Tensor k = heads(k_proj_.forward(x)), v = heads(v_proj_.forward(x));
  AttentionOptions options{.dropout = is_training() ? dropout_ : 0, .scale = 1};
  return out_proj_.forward(attend_with_cache(context, layer_, q, k, v, options));
}

OptLayer::OptLayer(const OptConfig& c, const Weights& from, size_t layer)
    : norms_first_(c.norms_first),
      dropout_(c.dropout),
      act_(c.act),
      self_attn_(c, from / "self_attn", layer),
      self_attn_layer_norm_(from / "self_attn_layer_norm", c.width, kEpsilon),
      fc1_(from / "fc1", c.width, c.inner, c.has_bias),
      fc2_(from / "fc2", c.inner, c.width, c.has_bias),
      final_layer_norm_(from / "final_layer_norm", c.width, kEpsilon) {
  put_child("self_attn", self_attn_), put_child("self_attn_layer_norm", self_attn_layer_norm_);
  put_child("fc1", fc1_), put_child("fc2", fc2_), put_child("final_layer_norm", final_layer_norm_);
}

at::Tensor OptLayer::forward(const at::Tensor& x, const AttentionContext& context) const {
  auto dropped = [&](const at::Tensor& t) { return at::dropout(t, dropout_, is_training()); };
  auto mlp = [&](const at::Tensor& t) { return fc2_.forward(act_(fc1_.forward(t))); };
  if (norms_first_) {
    at::Tensor h = x + dropped(self_attn_.forward(self_attn_layer_norm_.forward(x), context));
    return h + dropped(mlp(final_layer_norm_.forward(h)));
  }
  at::Tensor h = self_attn_layer_norm_.forward(x + dropped(self_attn_.forward(x, context)));
  return final_layer_norm_.forward(h + dropped(mlp(h)));
}

OptDecoder::OptDecoder(const OptConfig& c, const Weights& from)
    : embed_tokens(from / "embed_tokens", c.vocabulary, c.embedding_width),
      positions_(c.positions),
      embed_positions_(from / "embed_positions", c.positions + kPositionOffset, c.width) {
  put_child("embed_tokens", embed_tokens), put_child("embed_positions", embed_positions_);
  if (c.embedding_width != c.width) {
    put_child("project_out", project_out_.emplace(from / "project_out", c.width, c.embedding_width, /*has_bias=*/false));
    put_child("project_in", project_in_.emplace(from / "project_in", c.embedding_width, c.width, /*has_bias=*/false));
  }
  if (c.has_final_norm) put_child("final_layer_norm", final_layer_norm_.emplace(from / "final_layer_norm", c.width, kEpsilon));
  for (int64_t i = 0; i < c.layers; ++i) layers_.add(c, from / "layers" / i, static_cast<size_t>(i));
  put_child("layers", layers_);
}

at::Tensor OptDecoder::forward(const at::Tensor& ids, const AttentionContext& context) const {
  check_length(ids, positions_);
  at::Tensor x = embed_tokens.forward(ids), positions = embed_positions_.forward(context.positions + kPositionOffset);
  if (project_in_) x = project_in_->forward(x);
  x = x + positions;
  for (const auto& layer : layers_) {
    // Transformers draws a number for each layer to decide whether layerdrop, which is 0 here, skips it. Later numbers must be the same.
    if (is_training()) at::rand({}, at::kFloat);
    x = layer->forward(x, context);
  }
  if (final_layer_norm_) x = final_layer_norm_->forward(x);
  return project_out_ ? project_out_->forward(x) : x;
}

Opt::Opt(const OptConfig& c, const Weights& from)
    : CausalModel(c.sizes()),
      tied_(c.tied),
      model_(c, from / "model"),
      lm_head_(tied_or_own(c.tied, model_.decoder.embed_tokens, from / "lm_head")) {
  put_child("model", model_), put_child("lm_head", lm_head_);
}

}  // namespace tenon::models
