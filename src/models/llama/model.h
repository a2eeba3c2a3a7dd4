// Llama, with Mistral and Qwen2 as variants.
#pragma once

#include <tenon/causal.h>
#include <tenon/family.h>

#include "models/rope.h"

namespace tenon::models {

struct LlamaConfig {
  int64_t vocabulary, width, inner, layers, heads, kv_heads, head_size, positions, window;
  double epsilon, attention_dropout;
  bool query_bias, output_bias, mlp_bias, tied;
  Rope rope;
};

class LlamaAttention : public Module {
 public:
  LlamaAttention(const LlamaConfig& config, const Weights& from, size_t layer);
  at::Tensor forward(const at::Tensor& x, const RopeAngles& angles, const AttentionContext& context) const;

 private:
  int64_t head_size_;
  double dropout_;
  size_t layer_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
};

class LlamaMlp : public Module {
 public:
  LlamaMlp(const LlamaConfig& config, const Weights& from);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Linear gate_proj_, up_proj_, down_proj_;
};

class LlamaLayer : public Module {
 public:
  LlamaLayer(const LlamaConfig& config, const Weights& from, size_t layer);
  at::Tensor forward(const at::Tensor& x, const RopeAngles& angles, const AttentionContext& context) const;

 private:
  LlamaAttention self_attn_;
  LlamaMlp mlp_;
  RmsNorm input_layernorm_, post_attention_layernorm_;
};

class LlamaDecoder : public Module {
 public:
  LlamaDecoder(const LlamaConfig& config, const Weights& from);
  at::Tensor forward(const at::Tensor& ids, const AttentionContext& context) const;
  Embedding embed_tokens;

 private:
  ModuleList<LlamaLayer> layers_;
  RmsNorm norm_;
  at::Tensor frequencies_;
};

class Llama : public CausalModel {
 public:
  Llama(const LlamaConfig& config, const Weights& from);
  std::string file_name(const std::string& name) const override { return tied_ && name == "lm_head.weight" ? "" : name; }

 protected:
  at::Tensor hidden(const at::Tensor& ids, const AttentionContext& context) override { return model_.forward(ids, context); }
  at::Tensor logits(const at::Tensor& hidden) override { return lm_head_.forward(hidden); }

 private:
  bool tied_;
  LlamaDecoder model_;
  Linear lm_head_;
};

LlamaConfig read_llama_config(const Fields& fields);
std::shared_ptr<Model> make_llama(const Fields& fields, const Weights& weights);
std::shared_ptr<Model> make_mistral(const Fields& fields, const Weights& weights);
std::shared_ptr<Model> make_qwen2(const Fields& fields, const Weights& weights);

}  // namespace tenon::models
