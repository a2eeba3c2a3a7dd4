// GPT-2: learned position embeddings, layer norms before attention and MLP, transposed weights.
#pragma once

#include <tenon/causal.h>
#include <tenon/family.h>

#include "models/classifier.h"

namespace tenon::models {

struct Gpt2Config {
  int64_t vocabulary, width, inner, layers, heads, positions;
  double epsilon, attention_dropout, embedding_dropout, residual_dropout;
  Activation act;
  bool tied;

  CausalModel::Sizes sizes() const { return {layers, heads, width / heads, positions, vocabulary}; }
};

class Gpt2Attention : public Module {
 public:
  Gpt2Attention(const Gpt2Config& config, const Weights& from, size_t layer);
  at::Tensor forward(const at::Tensor& x, const AttentionContext& context) const;

 private:
  int64_t width_, head_size_;
  double attention_dropout_, residual_dropout_;
  size_t layer_;
  Linear c_attn_, c_proj_;
};

class Gpt2Mlp : public Module {
 public:
  Gpt2Mlp(const Gpt2Config& config, const Weights& from);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Activation act_;
  double dropout_;
  Linear c_fc_, c_proj_;
};

class Gpt2Block : public Module {
 public:
  Gpt2Block(const Gpt2Config& config, const Weights& from, size_t layer);
  at::Tensor forward(const at::Tensor& x, const AttentionContext& context) const;

 private:
  LayerNorm ln_1_, ln_2_;
  Gpt2Attention attn_;
  Gpt2Mlp mlp_;
};

class Gpt2Transformer : public Module {
 public:
  Gpt2Transformer(const Gpt2Config& config, const Weights& from);
  at::Tensor forward(const at::Tensor& ids, const AttentionContext& context) const;
  Embedding wte, wpe;

 private:
  double dropout_;
  ModuleList<Gpt2Block> h_;
  LayerNorm ln_f_;
};

class Gpt2 : public CausalModel {
 public:
  Gpt2(const Gpt2Config& config, const Weights& from);
  std::string file_name(const std::string& name) const override { return tied_ && name == "lm_head.weight" ? "" : name; }

 protected:
  at::Tensor hidden(const at::Tensor& ids, const AttentionContext& context) override { return transformer_.forward(ids, context); }
  at::Tensor logits(const at::Tensor& hidden) override { return lm_head_.forward(hidden); }

 private:
  bool tied_;
  Gpt2Transformer transformer_;
  Linear lm_head_;
};

std::shared_ptr<Model> make_gpt2(const Fields& fields, const Weights& weights);
std::shared_ptr<Model> make_gpt2_classifier(const Fields& fields, const Weights& weights);

}  // namespace tenon::models
