// Analysis of a kernel before code is emitted.
#pragma once

#include <vector>

#include "codegen/codegen.h"

namespace tenon::codegen {

struct Analysis {
  std::vector<ir::DType> types;  // One type per register.
  std::vector<int32_t> uses;     // Number of uses per register.
  // Per register: it varies from lane to lane of the enclosing vector loop. Other registers are scalars.
  std::vector<char> varies;
  // Per register: a product that only a sum reads. It is fused into the addition, which rounds once.
  std::vector<const ir::loop::Compute*> products;
  // The kernel has no vector loop, so its last parallel variable is vectorized.
  bool is_flat = false;
};

Analysis analyze(const ir::loop::LoopKernel& kernel);

// Returns the unroll factor of a vector loop: small if the body is long enough to keep the CPU busy, and
// 1 if it calls functions, since no vector register survives a call.
int unroll(const std::vector<ir::loop::Statement>& body, const Analysis& analysis);

}  // namespace tenon::codegen
