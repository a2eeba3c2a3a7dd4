// Products of few rows by a matrix as it lies in memory: no library, no packing, no scratch memory.
#pragma once

#include <cstdint>

namespace tenon::runtime {

// out[m, n] = left[m, k] right + row; all f32, or all bf16 (as its bits) with sums in f32.
struct Gemv {
  int64_t m = 0, n = 0, k = 0;
  int64_t left_stride = 0;  // from row to row
  bool turned = false;      // right lies as [n, k] in order instead of [k, n]; bf16 must be
};

bool has_gemv();  // on this CPU
// Columns [begin, end); `row` may be null.
void run_gemv(const Gemv& what, const float* left, const float* right, const float* row, float* out, int64_t begin, int64_t end);
void run_gemv(const Gemv& what, const uint16_t* left, const uint16_t* right, const uint16_t* row, uint16_t* out, int64_t begin,
              int64_t end);

}  // namespace tenon::runtime
