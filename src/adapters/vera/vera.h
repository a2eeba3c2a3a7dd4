// VeRA: two random matrices for all layers, and what is trained of each: a factor a rank and a factor an output.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct VeraConfig {
  explicit VeraConfig(const formats::Config& config);
  int64_t r, key;
  bool saves_projections;
};

// The matrices that a key stands for, [r, inputs] and [outputs, r].
std::pair<at::Tensor, at::Tensor> make_projections(const VeraConfig& config, int64_t inputs, int64_t outputs);

struct VeraTensors {
  at::Tensor a, b, lambda_b, lambda_d;
};
PartPointer make_vera(VeraTensors tensors);
Loaded load_vera(const formats::Config& config, Files& files, const Chosen& chosen);

}  // namespace tenon::adapters
