// Classification of texts by a decoder: a linear layer gives each token scores, and those of a text's last token are the result.
#pragma once

#include <tenon/causal.h>
#include <tenon/family.h>

#include <optional>

#include "models/inputs.h"

namespace tenon::models {

struct ClassifierConfig {
  int64_t width, labels;
  std::optional<int64_t> pad_token;
};

// Reads what the head needs. `width` is that of the decoder's results; `default_pad_token` is used if there is no field pad_token_id.
ClassifierConfig read_classifier(const Fields& fields, int64_t width, std::optional<int64_t> default_pad_token);

// Returns the scores [batch, labels] of the last token of each batch row that is not the pad token; of the first token if all are. Without
// a pad token it is the row's last token, and UserError(shape) is thrown if there are several rows. `scores` is [batch, length, labels].
at::Tensor scores_of_last_token(const at::Tensor& scores, const at::Tensor& ids, std::optional<int64_t> pad_token);

// `Body` is a decoder with forward(ids, context), made from `Config` and weights; `Config` has sizes().
template <class Body>
class SequenceClassifier : public Model {
 public:
  // `name` is the body's name in files.
  template <class Config>
  SequenceClassifier(const Config& c, const ClassifierConfig& head, const Weights& from, const char* name)
      : sizes_(c.sizes()), pad_token_(head.pad_token), body_(c, from / name), score_(from / "score", head.width, head.labels, false) {
    put_child(name, body_), put_child("score", score_);
  }

 protected:
  at::Tensor compute(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types) override {
    check_text(ids, mask, types);
    at::ScalarType type = score_.weight.scalar_type();
    return scores_of_last_token(score_.forward(body_.forward(ids, context_of(ids, mask, sizes_, type))), ids, pad_token_);
  }

 private:
  CausalModel::Sizes sizes_;
  std::optional<int64_t> pad_token_;
  Body body_;
  Linear score_;
};

}  // namespace tenon::models
