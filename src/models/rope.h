// Rotary positions: each pair of a head's numbers is turned by its place times a frequency.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tenon::models {

struct Rope {
  double base = 10000;
  double linear = 1;  // places are divided by this
  // Llama 3.1's: low frequencies are divided by `factor`, high ones are kept, between them it goes over smoothly.
  struct Llama3 {
    double factor, low, high, length;
  };
  std::optional<Llama3> llama3;
};

// f32 [head_size / 2].
at::Tensor rope_frequencies(const Rope& rope, int64_t head_size);

struct Turns {
  at::Tensor cos, sin;  // [batch, 1, length, head_size]
};
Turns rope_turns(const at::Tensor& frequencies, const at::Tensor& positions, at::ScalarType type);

// x: [batch, heads, length, head_size]
at::Tensor turn(const at::Tensor& x, const Turns& turns);

}  // namespace tenon::models
