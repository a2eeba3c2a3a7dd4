// OPT: learned position embeddings, layer norms before or after attention and MLP, embeddings that may be narrower than the layers.
#pragma once

#include <tenon/causal.h>
#include <tenon/family.h>

#include <optional>

namespace tenon::models {

struct OptConfig {
  int64_t vocabulary, width, embedding_width, inner, layers, heads, positions;
  double attention_dropout, dropout;
  bool has_bias, norms_first, has_final_norm, tied;
  Activation act;

  CausalModel::Sizes sizes() const {
    return {layers, heads, width / heads, positions, vocabulary, /*window=*/0, /*has_full_layers=*/true, /*masked_positions=*/true};
  }
};

class OptAttention : public Module {
 public:
  OptAttention(const OptConfig& config, const Weights& from, size_t layer);
  at::Tensor forward(const at::Tensor& x, const AttentionContext& context) const;

 private:
  int64_t head_size_;
  double dropout_;
  size_t layer_;
  Linear k_proj_, v_proj_, q_proj_, out_proj_;
};

class OptLayer : public Module {
 public:
  OptLayer(const OptConfig& config, const Weights& from, size_t layer);
  at::Tensor forward(const at::Tensor& x, const AttentionContext& context) const;

 private:
  bool norms_first_;
  double dropout_;
  Activation act_;
  OptAttention self_attn_;
  LayerNorm self_attn_layer_norm_;
  Linear fc1_, fc2_;
  LayerNorm final_layer_norm_;
};

class OptDecoder : public Module {
 public:
  OptDecoder(const OptConfig& config, const Weights& from);
  at::Tensor forward(const at::Tensor& ids, const AttentionContext& context) const;
  Embedding embed_tokens;

 private:
  int64_t positions_;
  Embedding embed_positions_;
  std::optional<Linear> project_out_, project_in_;
  std::optional<LayerNorm> final_layer_norm_;
  ModuleList<OptLayer> layers_;
};

class OptBody : public Module {
 public:
  OptBody(const OptConfig& config, const Weights& from) : decoder(config, from / "decoder") { put_child("decoder", decoder); }
  at::Tensor forward(const at::Tensor& ids, const AttentionContext& context) const { return decoder.forward(ids, context); }
  OptDecoder decoder;
};

class Opt : public CausalModel {
 public:
  Opt(const OptConfig& config, const Weights& from);
  std::string file_name(const std::string& name) const override { return tied_ && name == "lm_head.weight" ? "" : name; }

 protected:
  at::Tensor hidden(const at::Tensor& ids, const AttentionContext& context) override { return model_.forward(ids, context); }
  at::Tensor logits(const at::Tensor& hidden) override { return lm_head_.forward(hidden); }

 private:
  bool tied_;
  OptBody model_;
  Linear lm_head_;
};

std::shared_ptr<Model> make_opt(const Fields& fields, const Weights& weights);
std::shared_ptr<Model> make_opt_classifier(const Fields& fields, const Weights& weights);

}  // namespace tenon::models
