#include "models/bert/model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/zeros_like.h>

#include "models/inputs.h"

namespace tenon::models {

BertEmbeddings::BertEmbeddings(const BertConfig& c, const Weights& from)
    : word_embeddings(from / "word_embeddings", c.vocabulary, c.width),
      dropout_(c.dropout),
      position_embeddings_(from / "position_embeddings", c.positions, c.width),
      token_type_embeddings_(from / "token_type_embeddings", c.types, c.width),
      norm_(from / "LayerNorm", c.width, c.epsilon) {
  put_child("word_embeddings", word_embeddings), put_child("position_embeddings", position_embeddings_);
  put_child("token_type_embeddings", token_type_embeddings_), put_child("LayerNorm", norm_);
}

at::Tensor BertEmbeddings::forward(const at::Tensor& ids, const at::Tensor& types) const {
  at::Tensor positions = at::arange(ids.size(1), at::kLong).unsqueeze(0);
  at::Tensor x = word_embeddings.forward(ids) + token_type_embeddings_.forward(types.defined() ? types : at::zeros_like(ids));
  return at::dropout(norm_.forward(x + position_embeddings_.forward(positions)), dropout_, is_training());
}

BertSelfAttention::BertSelfAttention(const BertConfig& c, const Weights& from)
    : head_size_(c.width / c.heads),
      dropout_(c.attention_dropout),
      query_(from / "query", c.width, c.width, true),
      key_(from / "key", c.width, c.width, true),
      value_(from / "value", c.width, c.width, true) {
  put_child("query", query_), put_child("key", key_), put_child("value", value_);
}

at::Tensor BertSelfAttention::forward(const at::Tensor& x, const at::Tensor& mask) const {
  auto heads = [&](const Linear& product) { return split_heads(product.forward(x), head_size_); };
  at::Tensor q = heads(query_), k = heads(key_), v = heads(value_);  // The order of the products is that of their dropout masks.
  return merge_heads(attend(q, k, v, mask, /*causal=*/false, is_training() ? dropout_ : 0));
}

BertOutput::BertOutput(const BertConfig& c, const Weights& from, int64_t in)
    : dropout_(c.dropout), dense_(from / "dense", in, c.width, true), norm_(from / "LayerNorm", c.width, c.epsilon) {
  put_child("dense", dense_), put_child("LayerNorm", norm_);
}

at::Tensor BertOutput::forward(const at::Tensor& x, const at::Tensor& residual) const {
  return norm_.forward(at::dropout(dense_.forward(x), dropout_, is_training()) + residual);
}

BertAttention::BertAttention(const BertConfig& c, const Weights& from) : self_(c, from / "self"), output_(c, from / "output", c.width) {
  put_child("self", self_), put_child("output", output_);
}

BertDense::BertDense(const Weights& from, int64_t in, int64_t out, Activation act) : act_(act), dense_(from / "dense", in, out, true) {
  put_child("dense", dense_);
}

BertLayer::BertLayer(const BertConfig& c, const Weights& from)
    : attention_(c, from / "attention"),
      intermediate_(from / "intermediate", c.width, c.inner, c.act),
      output_(c, from / "output", c.inner) {
  put_child("attention", attention_), put_child("intermediate", intermediate_), put_child("output", output_);
}

at::Tensor BertLayer::forward(const at::Tensor& x, const at::Tensor& mask) const {
  at::Tensor h = attention_.forward(x, mask);
  return output_.forward(intermediate_.forward(h), h);
}

BertEncoder::BertEncoder(const BertConfig& c, const Weights& from) {
  for (int64_t i = 0; i < c.layers; ++i) layer_.add(c, from / "layer" / i);
  put_child("layer", layer_);
}

at::Tensor BertEncoder::forward(at::Tensor x, const at::Tensor& mask) const {
  for (const auto& layer : layer_) x = layer->forward(x, mask);
  return x;
}

BertBody::BertBody(const BertConfig& c, const Weights& from, bool pools)
    : embeddings(c, from / "embeddings"), encoder_(c, from / "encoder") {
  put_child("embeddings", embeddings), put_child("encoder", encoder_);
  if (!pools) return;
  pooler_ = std::make_unique<BertDense>(from / "pooler", c.width, c.width, activation("tanh"));
  put_child("pooler", *pooler_);
}

at::Tensor BertBody::forward(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types) const {
  check_text(ids, mask, types);
  check_length(ids, embeddings.positions());
  at::Tensor x = embeddings.forward(ids, types);
  return encoder_.forward(x, mask.defined() ? padding_mask(mask, x.scalar_type()) : mask);
}

}  // namespace tenon::models
