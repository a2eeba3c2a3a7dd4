// Products of a few rows and an unpacked matrix: no library, no packing, no scratch buffer.
#pragma once

#include <cstdint>

namespace tenon::runtime {

// out[m, n] = left[m, k] right + bias[n]; all f32, or all bf16 (as bits) with sums in f32.
struct Gemv {
  int64_t m = 0, n = 0, k = 0;
  int64_t left_stride = 0;  // Distance between rows of left.
  bool transposed = false;  // The memory of right is a contiguous [n, k] instead of [k, n]; must be true for bf16.
};

bool has_gemv();  // Returns whether this CPU has the instructions.
// Computes columns [begin, end); `bias` may be null.
void run_gemv(const Gemv& what, const float* left, const float* right, const float* bias, float* out, int64_t begin, int64_t end);
void run_gemv(const Gemv& what, const uint16_t* left, const uint16_t* right, const uint16_t* bias, uint16_t* out, int64_t begin,
              int64_t end);

}  // namespace tenon::runtime
