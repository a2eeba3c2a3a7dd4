// y + outer * (B (middle * (A x))), added in place: the loop behind LoRA and what is like it. What one token gets does not depend on
// the others that are computed beside it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tenon::adapters {

struct LowRank {
  at::Tensor a;       // f32 [inputs, rank]
  at::Tensor b;       // f32 [rank, outputs]
  at::Tensor middle;  // f32 [rank], or undefined
  at::Tensor outer;   // f32 [outputs], or undefined
  double scale = 1;
};

// Some tokens that follow each other: [tokens, inputs] and [tokens, outputs], both contiguous, f32 or bf16.
struct LowRankJob {
  LowRank what;
  const void* x;
  void* y;
  int64_t tokens;
};

bool has_low_rank(at::ScalarType type);
void add_low_rank(const std::vector<LowRankJob>& jobs, at::ScalarType type, int64_t inputs, int64_t outputs);

}  // namespace tenon::adapters
