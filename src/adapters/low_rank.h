// y + outer * (B (middle * (A x))), added in place: the loop behind LoRA and what is like it. What one token gets does not depend on
// the others that are computed beside it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tenon::adapters {

struct LowRank {
  at::Tensor a;       // f32 [rank, inputs or more]
  at::Tensor b;       // f32 [outputs or more, rank]
  at::Tensor middle;  // f32 [rank], or undefined
  at::Tensor outer;   // f32 [outputs], or undefined
  double scale = 1;

  LowRank laid_out() const;  // with the columns of a and of b together
};

// The same numbers, with its columns together.
at::Tensor by_columns(const at::Tensor& matrix);

inline constexpr int64_t kLowRankTokens = 8;  // that are computed at a time

// Tokens that follow each other: [tokens, inputs] and [tokens, outputs], both contiguous, f32 or bf16.
struct LowRankRows {
  at::ScalarType type;
  int64_t inputs, outputs, tokens;
  const void* x;
  void* y;
};

// Memory that is used again.
struct LowRankRoom {
  std::vector<float> sums, x, y;
};

bool has_low_rank(at::ScalarType type);
// `what` is laid out. `next` comes after it: its memory is asked for.
void add_low_rank(const LowRank& what, const LowRankRows& rows, LowRankRoom& room, const LowRank& next);

}  // namespace tenon::adapters
