// HRA: inputs are mirrored at a few trained directions, one after another.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

struct HraConfig {
  explicit HraConfig(const formats::Config& config);
  int64_t r;
  bool makes_orthogonal;
};

PartPointer make_hra(at::Tensor directions, bool makes_orthogonal);
Loaded load_hra(const formats::Config& config, Files& files, const Chosen& chosen);

}  // namespace tenon::adapters
