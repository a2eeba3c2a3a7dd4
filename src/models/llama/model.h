// The decoder of Llama. Its options make it a Mistral, a Qwen2, a Qwen3 or one of the Gemmas (models/gemma).
#pragma once

#include <tenon/causal.h>
#include <tenon/family.h>

#include <optional>
#include <vector>

#include "models/classifier.h"
#include "models/rope.h"

namespace tenon::models {

struct LlamaConfig {
  int64_t vocabulary, width, inner, layers, heads, kv_heads, head_size, positions;
  double epsilon, attention_dropout;
  bool query_bias, output_bias, mlp_bias, tied;
  Activation act;
  Rope rope;

  // Number of tokens that a token attends to in layers with a window; 0 for all.
  int64_t window = 0;
  std::vector<bool> windowed;  // Whether each layer has the window.
  // Rotary embeddings of layers with a window, if they differ from those of the other layers.
  std::optional<Rope> window_rope;

  RmsNorm::Factor norm_factor = RmsNorm::Factor::weight;
  bool has_head_norms = false;     // Each head of queries and keys is normalized.
  bool has_result_norms = false;   // The results of attention and MLP are normalized before they are added to their inputs.
  bool scales_embeddings = false;  // Embeddings are multiplied by sqrt(width).
  std::optional<double> scale;     // Factor of attention scores; 1 / sqrt(head_size) if empty.
  double score_softcap = 0, logit_softcap = 0;
  std::optional<int64_t> default_pad_token;  // Used if config.json has no field pad_token_id.

  CausalModel::Sizes sizes() const;
};

class LlamaAttention : public Module {
 public:
  LlamaAttention(const LlamaConfig& config, const Weights& from, size_t layer);
  at::Tensor forward(const at::Tensor& x, const RopeAngles& angles, const AttentionContext& context) const;

 private:
  at::Tensor heads(const Linear& projection, const std::optional<RmsNorm>& norm, const at::Tensor& x) const;

  int64_t head_size_;
  size_t layer_;
  AttentionOptions options_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<RmsNorm> q_norm_, k_norm_;
};

class LlamaMlp : public Module {
 public:
  LlamaMlp(const LlamaConfig& config, const Weights& from);
  // The order of the products is that of their dropout masks.
  at::Tensor forward(const at::Tensor& x) const {
    at::Tensor gate = act_(gate_proj_.forward(x)), up = up_proj_.forward(x);
    return down_proj_.forward(gate * up);
  }

 private:
  Activation act_;
  Linear gate_proj_, up_proj_, down_proj_;
};

class LlamaLayer : public Module {
 public:
  LlamaLayer(const LlamaConfig& config, const Weights& from, size_t layer);
  at::Tensor forward(const at::Tensor& x, const RopeAngles& angles, const AttentionContext& context) const;
  bool is_windowed() const { return is_windowed_; }

 private:
  bool is_windowed_;
  LlamaAttention self_attn_;
  LlamaMlp mlp_;
  // post_attention_layernorm normalizes the input of the MLP or, in models with norms of results, the result of attention.
  RmsNorm input_layernorm_, post_attention_layernorm_;
  std::optional<RmsNorm> pre_feedforward_layernorm_, post_feedforward_layernorm_;
};

class LlamaDecoder : public Module {
 public:
  LlamaDecoder(const LlamaConfig& config, const Weights& from);
  at::Tensor forward(const at::Tensor& ids, const AttentionContext& context) const;
  Embedding embed_tokens;

 private:
  double embedding_scale_ = 1;
  ModuleList<LlamaLayer> layers_;
  RmsNorm norm_;
  at::Tensor frequencies_, window_frequencies_;
};

class Llama : public CausalModel {
 public:
  Llama(const LlamaConfig& config, const Weights& from);
  std::string file_name(const std::string& name) const override { return tied_ && name == "lm_head.weight" ? "" : name; }

 protected:
  at::Tensor hidden(const at::Tensor& ids, const AttentionContext& context) override { return model_.forward(ids, context); }
  at::Tensor logits(const at::Tensor& hidden) override;

 private:
  bool tied_;
  double softcap_;
  LlamaDecoder model_;
  Linear lm_head_;
};

// Readers of config.json, one per family.
LlamaConfig read_llama(const Fields& fields);
LlamaConfig read_mistral(const Fields& fields);
LlamaConfig read_qwen2(const Fields& fields);
LlamaConfig read_qwen3(const Fields& fields);

// Makers for families.def.
template <LlamaConfig (*read)(const Fields&)>
std::shared_ptr<Model> make_decoder(const Fields& fields, const Weights& weights) {
  return std::make_shared<Llama>(read(fields), weights);
}

template <LlamaConfig (*read)(const Fields&)>
std::shared_ptr<Model> make_classifier(const Fields& fields, const Weights& weights) {
  LlamaConfig c = read(fields);
  return std::make_shared<SequenceClassifier<LlamaDecoder>>(c, read_classifier(fields, c.width, c.default_pad_token), weights, "model");
}

}  // namespace tenon::models
