#include "generate/sampling.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/TensorOperators.h>

#include <limits>

#include "base/error.h"

namespace tenon::generate {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Makes tokens that a sequence already contains less likely, whatever the sign of their score.
void penalise(at::Tensor& scores, const std::vector<std::vector<int64_t>>& sequences, double penalty) {
  for (size_t i = 0; i < sequences.size(); ++i) {
    at::Tensor row = scores[static_cast<int64_t>(i)], seen = at::tensor(sequences[i]), old = row.index_select(0, seen);
    row.index_copy_(0, seen, at::where(old < 0, old * penalty, old / penalty));
  }
}

void keep_top_k(at::Tensor& scores, int64_t k) {
  at::Tensor threshold = std::get<0>(scores.topk(std::min(k, scores.size(1)))).select(1, -1).unsqueeze(1);
  scores.masked_fill_(scores < threshold, kMinusInfinity);
}

void keep_top_p(at::Tensor& scores, double p) {
  auto [sorted, order] = scores.sort(-1, /*descending=*/false);
  at::Tensor drop = sorted.softmax(-1).cumsum(-1) <= 1 - p;
  drop.select(1, -1).fill_(false);  // The likeliest token is always kept.
  scores.masked_fill_(drop.scatter(1, order, drop), kMinusInfinity);
}

}  // namespace

void check(const GenerateOptions& options) {
  auto need = [](bool is_valid, const char* text) {
    if (!is_valid) throw UserError(ErrorCode::generate, text);
  };
  need(options.max_new_tokens >= 0, "max_new_tokens is negative. Give 0 or more.");
  need(options.temperature > 0, "temperature must be above 0. Leave `sample` false for greedy decoding.");
  need(options.top_k >= 0, "top_k is negative. Give 0 to switch it off.");
  need(options.top_p > 0 && options.top_p <= 1, "top_p must be above 0 and at most 1.");
  need(options.repetition_penalty > 0, "repetition_penalty must be above 0.");
}

std::vector<int64_t> choose(const at::Tensor& logits, const std::vector<std::vector<int64_t>>& sequences, const GenerateOptions& options,
                            at::Generator& generator) {
  at::Tensor scores = logits.to(at::kFloat);
  bool changes = options.repetition_penalty != 1 || options.sample;
  if (changes && scores.is_same(logits)) scores = scores.clone();
  if (options.repetition_penalty != 1) penalise(scores, sequences, options.repetition_penalty);
  at::Tensor chosen;
  if (options.sample) {
    if (options.temperature != 1) scores.div_(options.temperature);
    if (options.top_k > 0) keep_top_k(scores, options.top_k);
    if (options.top_p < 1) keep_top_p(scores, options.top_p);
    chosen = at::multinomial(scores.softmax(-1), 1, false, generator).squeeze(1);
  } else {
    chosen = scores.argmax(-1);
  }
  const int64_t* ids = chosen.const_data_ptr<int64_t>();
  return {ids, ids + chosen.numel()};
}

}  // namespace tenon::generate
