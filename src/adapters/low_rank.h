// The kernel of LoRA and similar methods: y += outer * (B (middle * (A x))). The result for a token does not depend on the other tokens
// that are computed with it.
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

  LowRank in_column_major() const;  // Returns the same product with a and b in column-major layout.
};

// Returns the matrix in column-major layout, as a copy if necessary.
at::Tensor to_column_major(const at::Tensor& matrix);

inline constexpr int64_t kTokensPerBlock = 8;  // Tokens that one pass over the factors computes: their sums fit in registers. Not measured.

// Consecutive tokens: x [tokens, inputs] and y [tokens, outputs], both contiguous, f32 or bf16.
struct LowRankBatch {
  at::ScalarType type;
  int64_t inputs, outputs, tokens;
  const void* x;
  void* y;
};

// Scratch buffers that are reused between calls of add_low_rank.
struct LowRankScratch {
  std::vector<float> sums, x, y;
};

bool has_low_rank(at::ScalarType type);
// `operands` are in column-major layout. The factor a of `next`, which is computed next, is prefetched.
void add_low_rank(const LowRank& operands, const LowRankBatch& batch, LowRankScratch& scratch, const LowRank& next);

}  // namespace tenon::adapters
