#include "models/gpt2/model.h"

#include <ATen/ops/dropout.h>

#include "models/inputs.h"

namespace tenon::models {

constexpr auto kInputFirst = Linear::WeightLayout::input_first;

Gpt2Attention::Gpt2Attention(const Gpt2Config& c, const Weights& from, size_t layer)
    : width_(c.width),
      head_size_(c.width / c.heads),
      attention_dropout_(c.attention_dropout),
      residual_dropout_(c.residual_dropout),
      layer_(layer),
      c_attn_(from / "c_attn", c.width, 3 * c.width, true, kInputFirst),
      c_proj_(from / "c_proj", c.width, c.width, true, kInputFirst) {
  put_child("c_attn", c_attn_), put_child("c_proj", c_proj_);
}

at::Tensor Gpt2Attention::forward(const at::Tensor& x, const AttentionContext& context) const {
  auto qkv = c_attn_.forward(x).split(width_, 2);
  auto heads = [&](const at::Tensor& t) { return split_heads(t, head_size_); };
  AttentionOptions options{.dropout = is_training() ? attention_dropout_ : 0};
  at::Tensor mixed = attend_with_cache(context, layer_, heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), options);
  return at::dropout(c_proj_.forward(mixed), residual_dropout_, is_training());
}

Gpt2Mlp::Gpt2Mlp(const Gpt2Config& c, const Weights& from)
    : act_(c.act),
      dropout_(c.residual_dropout),
      c_fc_(from / "c_fc", c.width, c.inner, true, kInputFirst),
      c_proj_(from / "c_proj", c.inner, c.width, true, kInputFirst) {
  put_child("c_fc", c_fc_), put_child("c_proj", c_proj_);
}

at::Tensor Gpt2Mlp::forward(const at::Tensor& x) const {
  return at::dropout(c_proj_.forward(act_(c_fc_.forward(x))), dropout_, is_training());
}

Gpt2Block::Gpt2Block(const Gpt2Config& c, const Weights& from, size_t layer)
    : ln_1_(from / "ln_1", c.width, c.epsilon),
      ln_2_(from / "ln_2", c.width, c.epsilon),
      attn_(c, from / "attn", layer),
      mlp_(c, from / "mlp") {
  put_child("ln_1", ln_1_), put_child("attn", attn_), put_child("ln_2", ln_2_), put_child("mlp", mlp_);
}

at::Tensor Gpt2Block::forward(const at::Tensor& x, const AttentionContext& context) const {
  at::Tensor h = x + attn_.forward(ln_1_.forward(x), context);
  return h + mlp_.forward(ln_2_.forward(h));
}

Gpt2Transformer::Gpt2Transformer(const Gpt2Config& c, const Weights& from)
    : wte(from / "wte", c.vocabulary, c.width),
      wpe(from / "wpe", c.positions, c.width),
      dropout_(c.embedding_dropout),
      ln_f_(from / "ln_f", c.width, c.epsilon) {
  for (int64_t i = 0; i < c.layers; ++i) h_.add(c, from / "h" / i, static_cast<size_t>(i));
  put_child("wte", wte), put_child("wpe", wpe), put_child("h", h_), put_child("ln_f", ln_f_);
}

at::Tensor Gpt2Transformer::forward(const at::Tensor& ids, const AttentionContext& context) const {
  check_length(ids, wpe.weight.size(0));
  at::Tensor x = at::dropout(wte.forward(ids) + wpe.forward(context.positions), dropout_, is_training());
  for (const auto& block : h_) x = block->forward(x, context);
  return ln_f_.forward(x);
}

Gpt2::Gpt2(const Gpt2Config& c, const Weights& from)
    : CausalModel(c.sizes()),
      tied_(c.tied),
      transformer_(c, from / "transformer"),
      lm_head_(tied_or_own(c.tied, transformer_.wte, from / "lm_head")) {
  put_child("transformer", transformer_), put_child("lm_head", lm_head_);
}

}  // namespace tenon::models
