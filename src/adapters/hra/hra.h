// HRA: a chain of Householder reflections with trained directions is applied to the input.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct HraFields {
  explicit HraFields(const formats::Config& config);
  int64_t r;
  bool makes_orthogonal;
};

LayerAdapterPointer make_hra(at::Tensor directions, bool makes_orthogonal);
LoadedAdapter load_hra(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_hra(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

}  // namespace tenon::adapters
