// VeRA: all layers share two random matrices; each layer trains one factor per rank and one per output.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct VeraConfig {
  explicit VeraConfig(const formats::Config& config);
  int64_t r, key;
  bool saves_projections;
};

// Generates the random matrices [r, inputs] and [outputs, r] from the configuration's key.
std::pair<at::Tensor, at::Tensor> make_projections(const VeraConfig& config, int64_t inputs, int64_t outputs);

struct VeraTensors {
  at::Tensor a, b, lambda_b, lambda_d;
};
LayerAdapterPointer make_vera(VeraTensors tensors);
LoadedAdapter load_vera(const formats::Config& config, Files& files, const ChosenLayers& chosen);

}  // namespace tenon::adapters
