// What is known of a kernel before any code is written.
#pragma once

#include <vector>

#include "codegen/codegen.h"

namespace tenon::codegen {

struct Analysis {
  std::vector<ir::DType> types;  // by register
  std::vector<int32_t> uses;     // by register
  // Differs from lane to lane of the vector loop around it; the others are kept as scalars.
  std::vector<char> varies;
  // Products that only a sum reads: they are added with one rounding.
  std::vector<const ir::loop::Compute*> products;
  // The kernel has no vector loop of its own, so that its last parallel variable is taken as one.
  bool is_flat = false;
};

Analysis analyze(const ir::loop::Kernel& kernel);

// How many vectors a loop's body works on side by side: few where the body is long enough to keep
// the CPU busy by itself, one where it calls functions, since no vector register survives a call.
int unroll(const std::vector<ir::loop::Statement>& body, const Analysis& analysis);

}  // namespace tenon::codegen
