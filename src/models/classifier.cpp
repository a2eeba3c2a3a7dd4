#include "models/classifier.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/gather.h>

#include "base/error.h"

namespace tenon::models {

ClassifierConfig read_classifier(const Fields& fields, int64_t width, std::optional<int64_t> default_pad_token) {
  ClassifierConfig c{width, static_cast<int64_t>(fields.labels()), default_pad_token};
  // Some files of the first Llama have -1, which no token is equal to.
  if (fields.has("pad_token_id")) c.pad_token = fields.integer("pad_token_id", -1);
  else if (fields.is_null("pad_token_id")) c.pad_token = std::nullopt;
  return c;
}

at::Tensor scores_of_last_token(const at::Tensor& scores, const at::Tensor& ids, std::optional<int64_t> pad_token) {
  int64_t batch = ids.size(0), length = ids.size(1);
  if (!pad_token) {
    if (batch != 1)
      throw UserError(ErrorCode::shape, "input has " + std::to_string(batch) +
                                            " samples, and config.json has no pad_token_id, so the last token of each text is unknown. Set "
                                            "pad_token_id in config.json, or give one sample per call.");
    return scores.select(1, -1);
  }
  // A token's index, or 0 for padding: the largest of these is the index of the last token.
  at::Tensor last = (at::arange(length, at::kLong) * ids.ne(*pad_token).to(at::kLong)).amax(1);
  return scores.gather(1, last.view({batch, 1, 1}).expand({batch, 1, scores.size(2)})).squeeze(1);
}

}  // namespace tenon::models
