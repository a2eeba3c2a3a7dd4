// bf16 products with libtorch's brgemm, on weights packed in blocks of 64 columns. Sums and bias are added in f32 and
// rounded once.
#pragma once

#include <cstdint>

#include "runtime/packs.h"

namespace tenon::runtime {

bool has_tiles();  // Returns whether this CPU has the instructions.
// Packs a weight of sizes [k, n] and any strides; k is even.
Packed pack_tiles(const at::Tensor& right);

struct Tiles {
  int64_t m = 0, n = 0, k = 0;
  int64_t left_stride = 0;
  const c10::BFloat16* left = nullptr;
  const c10::BFloat16* right = nullptr;  // Packed weight.
  const c10::BFloat16* bias = nullptr;   // May be null.
  c10::BFloat16* out = nullptr;
};
void run_tiles(const Tiles& what);

}  // namespace tenon::runtime
