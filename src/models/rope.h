// Rotary position embeddings: each pair of a head's elements is rotated by its position times a frequency.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tenon::models {

struct Rope {
  double base = 10000;
  double linear = 1;  // Positions are divided by this factor.
  // The scaling of Llama 3.1: low frequencies are divided by `factor`, high ones are kept, those between are interpolated.
  struct Llama3 {
    double factor, low, high, length;
  };
  std::optional<Llama3> llama3;
};

// Returns the frequencies, f32 [head_size / 2].
at::Tensor rope_frequencies(const Rope& rope, int64_t head_size);

struct RopeAngles {
  at::Tensor cos, sin;  // [batch, 1, length, head_size]
};
RopeAngles rope_angles(const at::Tensor& frequencies, const at::Tensor& positions, at::ScalarType type);

// Rotates x [batch, heads, length, head_size].
at::Tensor rotate(const at::Tensor& x, const RopeAngles& angles);

}  // namespace tenon::models
