// Products in bf16 by tiles: libtorch's brgemm on blocks of 64 columns, which lie as it wants them, with sums
// rounded once, bias included.
#pragma once

#include <cstdint>

#include "runtime/packs.h"

namespace tenon::runtime {

bool has_tiles();  // on this CPU
// Of right, [k, n] in any order; k is even.
Packed pack_tiles(const at::Tensor& right);

struct Tiles {
  int64_t m = 0, n = 0, k = 0;
  int64_t left_stride = 0;
  const c10::BFloat16* left = nullptr;
  const c10::BFloat16* right = nullptr;  // of a pack
  const c10::BFloat16* row = nullptr;    // added to each row, or null
  c10::BFloat16* out = nullptr;
};
void run_tiles(const Tiles& what);

}  // namespace tenon::runtime
