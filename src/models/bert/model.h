// BERT with a head for masked tokens or for classification.
#pragma once

#include <tenon/family.h>

namespace tenon::models {

struct BertConfig {
  int64_t vocabulary, width, inner, layers, heads, positions, types, labels;
  double epsilon, attention_dropout, dropout, classifier_dropout;
  Activation act;
  bool tied;
};

class BertEmbeddings : public Module {
 public:
  BertEmbeddings(const BertConfig& config, const Weights& from);
  at::Tensor forward(const at::Tensor& ids, const at::Tensor& types) const;
  int64_t positions() const { return position_embeddings_.weight.size(0); }
  Embedding word_embeddings;

 private:
  double dropout_;
  Embedding position_embeddings_, token_type_embeddings_;
  LayerNorm norm_;
};

class BertSelfAttention : public Module {
 public:
  BertSelfAttention(const BertConfig& config, const Weights& from);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) const;

 private:
  int64_t head_size_;
  double dropout_;
  Linear query_, key_, value_;
};

// A linear layer, the residual addition, and a norm.
class BertOutput : public Module {
 public:
  BertOutput(const BertConfig& config, const Weights& from, int64_t in);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual) const;

 private:
  double dropout_;
  Linear dense_;
  LayerNorm norm_;
};

class BertAttention : public Module {
 public:
  BertAttention(const BertConfig& config, const Weights& from);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) const { return output_.forward(self_.forward(x, mask), x); }

 private:
  BertSelfAttention self_;
  BertOutput output_;
};

// A linear layer named "dense" with an activation.
class BertDense : public Module {
 public:
  BertDense(const Weights& from, int64_t in, int64_t out, Activation act);
  at::Tensor forward(const at::Tensor& x) const { return act_(dense_.forward(x)); }

 private:
  Activation act_;
  Linear dense_;
};

class BertLayer : public Module {
 public:
  BertLayer(const BertConfig& config, const Weights& from);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) const;

 private:
  BertAttention attention_;
  BertDense intermediate_;
  BertOutput output_;
};

class BertEncoder : public Module {
 public:
  BertEncoder(const BertConfig& config, const Weights& from);
  at::Tensor forward(at::Tensor x, const at::Tensor& mask) const;

 private:
  ModuleList<BertLayer> layer_;
};

class BertBody : public Module {
 public:
  BertBody(const BertConfig& config, const Weights& from, bool pools);
  at::Tensor forward(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types) const;
  at::Tensor pooled(const at::Tensor& hidden) const { return pooler_->forward(hidden.select(1, 0)); }
  BertEmbeddings embeddings;

 private:
  BertEncoder encoder_;
  std::unique_ptr<BertDense> pooler_;
};

std::shared_ptr<Model> make_bert_masked(const Fields& fields, const Weights& weights);
std::shared_ptr<Model> make_bert_classifier(const Fields& fields, const Weights& weights);

}  // namespace tenon::models
