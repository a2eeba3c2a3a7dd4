#include "runtime/gemv.h"

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12, of its own header
#include <immintrin.h>

#include <algorithm>

namespace tenon::runtime {
namespace {

#define TENON_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))

constexpr int64_t kLanes = 16;

TENON_AVX512 inline __mmask16 first(int64_t count) { return static_cast<__mmask16>(count >= kLanes ? 0xffff : (1u << count) - 1); }

// The sums of sixteen vectors, in their order: halves are folded onto each other, two vectors at a time.
TENON_AVX512 inline __m512 sums_of(__m512 (&v)[kLanes]) {
  __m512 a[8], b[4], c[2];
#pragma GCC unroll 16
  for (int i = 0; i < 8; ++i) a[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[i], v[i + 8], 0x44), _mm512_shuffle_f32x4(v[i], v[i + 8], 0xee));
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) b[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd));
#pragma GCC unroll 16
  for (int i = 0; i < 2; ++i) c[i] = _mm512_add_ps(_mm512_shuffle_ps(b[i], b[i + 2], 0x44), _mm512_shuffle_ps(b[i], b[i + 2], 0xee));
  return _mm512_add_ps(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xdd));
}

// Where sums_of puts vector i: lane order[i].
TENON_AVX512 inline __m512 in_order(__m512 sums) {
  // Quarter q holds v[8 * (q & 1) + 4 * (q >> 1) + 0..3], of which each lane pair was folded in the order 0, 2, 1, 3.
  const __m512i where = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
  return _mm512_permutexvar_ps(where, sums);
}

// Sixteen rows of right at a time, along k.
TENON_AVX512 void run_turned(const Gemv& g, const float* left, const float* right, const float* row, float* out, int64_t begin,
                             int64_t end) {
  for (int64_t n = begin; n < end; n += kLanes) {
    int64_t count = std::min(kLanes, end - n);
    const float* rows[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) rows[i] = right + (n + std::min(i, count - 1)) * g.k;
    __m512 start = row ? _mm512_maskz_loadu_ps(first(count), row + n) : _mm512_setzero_ps();
    for (int64_t m = 0; m < g.m; ++m) {
      const float* x = left + m * g.left_stride;
      __m512 sums[kLanes];
#pragma GCC unroll 16
      for (__m512& sum : sums) sum = _mm512_setzero_ps();
      int64_t k = 0;
      for (; k + kLanes <= g.k; k += kLanes) {
        __m512 some = _mm512_loadu_ps(x + k);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) sums[i] = _mm512_fmadd_ps(some, _mm512_loadu_ps(rows[i] + k), sums[i]);
      }
      if (k < g.k) {
        __mmask16 rest = first(g.k - k);
        __m512 some = _mm512_maskz_loadu_ps(rest, x + k);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) sums[i] = _mm512_fmadd_ps(some, _mm512_maskz_loadu_ps(rest, rows[i] + k), sums[i]);
      }
      _mm512_mask_storeu_ps(out + m * g.n + n, first(count), _mm512_add_ps(in_order(sums_of(sums)), start));
    }
  }
}

constexpr int kVectors = 4;
constexpr int64_t kBlock = 128;

// Columns [n, n + 64), or as many of them as `masks` say.
template <bool kWhole>
TENON_AVX512 void run_columns(const Gemv& g, const float* left, const float* right, const float* row, float* out, int64_t n,
                              const __mmask16 (&masks)[kVectors]) {
  auto load = [&](const float* from, int v)
                  TENON_AVX512 { return kWhole ? _mm512_loadu_ps(from + v * kLanes) : _mm512_maskz_loadu_ps(masks[v], from + v * kLanes); };
  for (int64_t m = 0; m < g.m; ++m) {
    const float* x = left + m * g.left_stride;
    __m512 totals[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) totals[v] = row ? load(row + n, v) : _mm512_setzero_ps();
    auto add = [&](__m512(&sums)[kVectors], int64_t k) TENON_AVX512 {
      __m512 one = _mm512_set1_ps(x[k]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[v] = _mm512_fmadd_ps(one, load(right + k * g.n + n, v), sums[v]);
    };
    // Block by block, so that errors do not grow with k.
    for (int64_t block = 0; block < g.k; block += kBlock) {
      __m512 even[kVectors], odd[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) even[v] = odd[v] = _mm512_setzero_ps();
      int64_t k = block, end = std::min(g.k, block + kBlock);
      for (; k + 2 <= end; k += 2) {
        add(even, k);
        add(odd, k + 1);
      }
      if (k < end) add(even, k);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) totals[v] = _mm512_add_ps(totals[v], _mm512_add_ps(even[v], odd[v]));
    }
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) _mm512_mask_storeu_ps(out + m * g.n + n + v * kLanes, masks[v], totals[v]);
  }
}

TENON_AVX512 void run_straight(const Gemv& g, const float* left, const float* right, const float* row, float* out, int64_t begin,
                               int64_t end) {
  for (int64_t n = begin; n < end; n += kVectors * kLanes) {
    __mmask16 masks[kVectors];
    for (int v = 0; v < kVectors; ++v) masks[v] = first(std::clamp<int64_t>(end - n - v * kLanes, 0, kLanes));
    if (end - n >= kVectors * kLanes) run_columns<true>(g, left, right, row, out, n, masks);
    else run_columns<false>(g, left, right, row, out, n, masks);
  }
}

}  // namespace

bool has_gemv() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl");
  return has;
}

void run_gemv(const Gemv& what, const float* left, const float* right, const float* row, float* out, int64_t begin, int64_t end) {
  if (what.turned) run_turned(what, left, right, row, out, begin, end);
  else run_straight(what, left, right, row, out, begin, end);
}

}  // namespace tenon::runtime
