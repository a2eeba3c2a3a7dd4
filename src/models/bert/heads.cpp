// BERT's heads and its configuration.
#include <ATen/ops/dropout.h>

#include "models/bert/model.h"

namespace tenon::models {

namespace {

class BertTransform : public Module {
 public:
  BertTransform(const BertConfig& c, const Weights& from)
      : act_(c.act), dense_(from / "dense", c.width, c.width, true), norm_(from / "LayerNorm", c.width, c.epsilon) {
    put_child("dense", dense_), put_child("LayerNorm", norm_);
  }
  at::Tensor forward(const at::Tensor& x) const { return norm_.forward(act_(dense_.forward(x))); }

 private:
  Activation act_;
  Linear dense_;
  LayerNorm norm_;
};

// The decoder's bias is stored as the bias of this module.
class BertPredictions : public Module {
 public:
  BertPredictions(const BertConfig& c, const Weights& from, const at::Tensor& embedding)
      : bias_(put_parameter("bias", from.take("bias", {c.vocabulary}))),
        transform_(c, from / "transform"),
        decoder_(c.tied ? embedding : (from / "decoder").take("weight", {c.vocabulary, c.width}), bias_) {
    put_child("transform", transform_), put_child("decoder", decoder_);
  }
  at::Tensor forward(const at::Tensor& x) const { return decoder_.forward(transform_.forward(x)); }

 private:
  at::Tensor& bias_;
  BertTransform transform_;
  Linear decoder_;
};

class BertHeadPath : public Module {
 public:
  BertHeadPath(const BertConfig& c, const Weights& from, const at::Tensor& embedding) : predictions(c, from / "predictions", embedding) {
    put_child("predictions", predictions);
  }
  BertPredictions predictions;
};

class BertMasked : public Model {
 public:
  BertMasked(const BertConfig& c, const Weights& from)
      : tied_(c.tied), bert_(c, from / "bert", /*pools=*/false), cls_(c, from / "cls", bert_.embeddings.word_embeddings.weight) {
    put_child("bert", bert_), put_child("cls", cls_);
  }
  at::Tensor compute(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types) override {
    return cls_.predictions.forward(bert_.forward(ids, mask, types));
  }
  std::string file_name(const std::string& name) const override {
    bool elsewhere = name == "cls.predictions.decoder.bias" || (tied_ && name == "cls.predictions.decoder.weight");
    return elsewhere ? "" : name;
  }

 private:
  bool tied_;
  BertBody bert_;
  BertHeadPath cls_;
};

class BertClassifier : public Model {
 public:
  BertClassifier(const BertConfig& c, const Weights& from)
      : dropout_(c.classifier_dropout), bert_(c, from / "bert", /*pools=*/true), classifier_(from / "classifier", c.width, c.labels, true) {
    put_child("bert", bert_), put_child("classifier", classifier_);
  }
  at::Tensor compute(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types) override {
    at::Tensor pooled = bert_.pooled(bert_.forward(ids, mask, types));
    return classifier_.forward(at::dropout(pooled, dropout_, is_training()));
  }

 private:
  double dropout_;
  BertBody bert_;
  Linear classifier_;
};

BertConfig read_config(const Fields& fields) {
  BertConfig c{};
  c.vocabulary = fields.integer("vocab_size");
  c.width = fields.integer("hidden_size");
  c.inner = fields.integer("intermediate_size");
  c.layers = fields.integer("num_hidden_layers", 1, 4096);
  c.heads = fields.integer("num_attention_heads", 1, 1 << 20);
  if (c.width % c.heads) fields.refuse("num_attention_heads", "does not divide hidden_size");
  c.positions = fields.integer("max_position_embeddings");
  c.types = fields.integer("type_vocab_size");
  c.labels = static_cast<int64_t>(fields.labels());
  c.epsilon = fields.number_or("layer_norm_eps", 1e-12, 0, 1);
  c.attention_dropout = fields.number_or("attention_probs_dropout_prob", 0.1, 0, 1);
  c.dropout = fields.number_or("hidden_dropout_prob", 0.1, 0, 1);
  c.classifier_dropout = fields.number_or("classifier_dropout", c.dropout, 0, 1);
  c.act = activation(fields.text_or("hidden_act", "gelu"));
  c.tied = fields.boolean_or("tie_word_embeddings", true);
  for (const char* name : {"is_decoder", "add_cross_attention"})
    if (fields.boolean_or(name, false)) fields.refuse(name, "true is not supported");
  if (fields.text_or("position_embedding_type", "absolute") != "absolute")
    fields.refuse("position_embedding_type", "must be \"absolute\" for this family");
  return c;
}

}  // namespace

std::shared_ptr<Model> make_bert_masked(const Fields& fields, const Weights& weights) {
  return std::make_shared<BertMasked>(read_config(fields), weights);
}

std::shared_ptr<Model> make_bert_classifier(const Fields& fields, const Weights& weights) {
  return std::make_shared<BertClassifier>(read_config(fields), weights);
}

}  // namespace tenon::models
