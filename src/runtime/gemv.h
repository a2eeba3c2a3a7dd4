// Products of few rows by a matrix as it lies in memory: no library, no packing, no scratch memory.
#pragma once

#include <cstdint>

namespace tenon::runtime {

// out[m, n] = left[m, k] right + row; all f32.
struct Gemv {
  int64_t m = 0, n = 0, k = 0;
  int64_t left_stride = 0;  // from row to row
  bool turned = false;      // right lies as [n, k] in order instead of [k, n]
};

bool has_gemv();  // on this CPU
// Columns [begin, end); `row` may be null.
void run_gemv(const Gemv& what, const float* left, const float* right, const float* row, float* out, int64_t begin, int64_t end);

}  // namespace tenon::runtime
