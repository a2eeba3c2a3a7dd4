#include "models/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/TensorOperators.h>

#include <numbers>

namespace tenon::models {

at::Tensor rope_frequencies(const Rope& rope, int64_t head_size) {
  at::Tensor exponents = at::arange(0, head_size, 2, at::kLong).to(at::kFloat) / static_cast<double>(head_size);
  at::Tensor frequencies = 1.0 / at::pow(rope.base, exponents) / rope.linear;
  if (!rope.llama3) return frequencies;
  const Rope::Llama3& l = *rope.llama3;
  float* f = frequencies.data_ptr<float>();
  for (int64_t i = 0; i < frequencies.size(0); ++i) {
    double wave = 2 * std::numbers::pi / f[i];
    double smooth = (l.length / wave - l.low) / (l.high - l.low);
    if (wave > l.length / l.low) f[i] = static_cast<float>(f[i] / l.factor);
    else if (wave >= l.length / l.high) f[i] = static_cast<float>((1 - smooth) * f[i] / l.factor + smooth * f[i]);
  }
  return frequencies;
}

RopeAngles rope_angles(const at::Tensor& frequencies, const at::Tensor& positions, at::ScalarType type) {
  at::Tensor radians = positions.to(at::kFloat).unsqueeze(-1) * frequencies;
  radians = at::cat({radians, radians}, -1).unsqueeze(1);
  return {radians.cos().to(type), radians.sin().to(type)};
}

at::Tensor rotate(const at::Tensor& x, const RopeAngles& angles) {
  auto halves = x.chunk(2, -1);
  return x * angles.cos + at::cat({-halves[1], halves[0]}, -1) * angles.sin;
}

}  // namespace tenon::models
