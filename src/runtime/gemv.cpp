#include "runtime/gemv.h"

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own header.
#include <immintrin.h>

#include <algorithm>
#include <vector>

namespace tenon::runtime {
namespace {

#define TENON_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))

constexpr int64_t kLanes = 16;

TENON_AVX512 inline __mmask16 first(int64_t count) { return static_cast<__mmask16>(count >= kLanes ? 0xffff : (1u << count) - 1); }

// The horizontal sums of sixteen vectors, one per lane: a shuffle and an addition fold two vectors into one at each level.
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

// Permutes the result of sums_of so that lane i holds the sum of vector i.
TENON_AVX512 inline __m512 in_order(__m512 sums) {
  // Quarter q holds the sums of v[8 * (q & 1) + 4 * (q >> 1) + 0..3] in the order 0, 2, 1, 3.
  const __m512i lanes = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
  return _mm512_permutexvar_ps(lanes, sums);
}

TENON_AVX512 inline __m512 widened(__m256i halves) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16)); }

// Rounds f32 to bf16, to nearest even; NaN stays NaN.
TENON_AVX512 inline __m256i rounded(__m512 v) {
  __m512i bits = _mm512_castps_si512(v);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i out = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  out = _mm512_mask_mov_epi32(out, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc0));
  return _mm512_cvtepi32_epi16(out);
}

// Multiplies by sixteen rows of `right` at a time, along k. Rows are too short for the hardware prefetcher to detect streams, so with
// kPrefetch the same position in the next sixteen rows is prefetched.
template <bool kPrefetch>
TENON_AVX512 void run_transposed(const Gemv& g, const float* left, const float* right, const float* bias, float* out, int64_t begin,
                                 int64_t end) {
  for (int64_t n = begin; n < end; n += kLanes) {
    int64_t count = std::min(kLanes, end - n);
    const float* rows[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) rows[i] = right + (n + std::min(i, count - 1)) * g.k;
    __m512 start = bias ? _mm512_maskz_loadu_ps(first(count), bias + n) : _mm512_setzero_ps();
    for (int64_t m = 0; m < g.m; ++m) {
      const float* x = left + m * g.left_stride;
      __m512 sums[kLanes];
#pragma GCC unroll 16
      for (__m512& sum : sums) sum = _mm512_setzero_ps();
      int64_t k = 0;
      for (; k + kLanes <= g.k; k += kLanes) {
        __m512 some = _mm512_loadu_ps(x + k);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) {
          if (kPrefetch) _mm_prefetch(reinterpret_cast<const char*>(rows[i] + kLanes * g.k + k), _MM_HINT_T1);
          sums[i] = _mm512_fmadd_ps(some, _mm512_loadu_ps(rows[i] + k), sums[i]);
        }
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

constexpr int64_t kPairElements = 2 * kLanes;  // Elements of bf16 in one vector register.
constexpr int kStreams = 8;                    // Rows that are read concurrently. More streams lower the memory bandwidth (bench_decode).

// Converts bf16 to f32 and splits each 32 elements into those at even indices and those at odd ones, padded with 0.
TENON_AVX512 void deinterleave(const uint16_t* from, int64_t count, float* to) {
  for (int64_t k = 0; k < count; k += kPairElements, to += kPairElements) {
    int64_t left = std::min(kPairElements, count - k);
    __m512i pairs = _mm512_maskz_loadu_epi16(left == kPairElements ? ~__mmask32{0} : (__mmask32{1} << left) - 1, from + k);
    _mm512_storeu_ps(to, _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)));
    _mm512_storeu_ps(to + kLanes, _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000)))));
  }
}

// The dot products of eight rows with x, which is deinterleaved.
TENON_AVX512 inline void sum_rows(const uint16_t* const* rows, int64_t k, const float* x, __m512* sums) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  __m512 even[kStreams], odd[kStreams];
#pragma GCC unroll 8
  for (int i = 0; i < kStreams; ++i) even[i] = odd[i] = _mm512_setzero_ps();
  auto add = [&](int i, __m512i pairs, __m512 x0, __m512 x1) TENON_AVX512 {
    even[i] = _mm512_fmadd_ps(x0, _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)), even[i]);
    odd[i] = _mm512_fmadd_ps(x1, _mm512_castsi512_ps(_mm512_and_si512(pairs, upper)), odd[i]);
  };
  int64_t j = 0;
  for (; j + kPairElements <= k; j += kPairElements) {
    __m512 x0 = _mm512_loadu_ps(x + j), x1 = _mm512_loadu_ps(x + j + kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kStreams; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(rows[i] + kStreams * k + j), _MM_HINT_T1);
      add(i, _mm512_loadu_si512(rows[i] + j), x0, x1);
    }
  }
  if (j < k) {
    __mmask32 rest = (__mmask32{1} << (k - j)) - 1;
    __m512 x0 = _mm512_loadu_ps(x + j), x1 = _mm512_loadu_ps(x + j + kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kStreams; ++i) add(i, _mm512_maskz_loadu_epi16(rest, rows[i] + j), x0, x1);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kStreams; ++i) sums[i] = _mm512_add_ps(even[i], odd[i]);
}

// The same for bf16, always with prefetches.
TENON_AVX512 void run_transposed(const Gemv& g, const uint16_t* left, const uint16_t* right, const uint16_t* bias, uint16_t* out,
                                 int64_t begin, int64_t end) {
  int64_t width = (g.k + kPairElements - 1) / kPairElements * kPairElements;
  std::vector<float> x(static_cast<size_t>(g.m * width));
  for (int64_t m = 0; m < g.m; ++m) deinterleave(left + m * g.left_stride, g.k, x.data() + m * width);
  for (int64_t n = begin; n < end; n += kLanes) {
    int64_t count = std::min(kLanes, end - n);
    const uint16_t* rows[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) rows[i] = right + (n + std::min(i, count - 1)) * g.k;
    __m512 start = bias ? widened(_mm256_maskz_loadu_epi16(first(count), bias + n)) : _mm512_setzero_ps();
    for (int64_t m = 0; m < g.m; ++m) {
      __m512 sums[kLanes];
      for (int half = 0; half < kLanes; half += kStreams) sum_rows(rows + half, g.k, x.data() + m * width, sums + half);
      _mm256_mask_storeu_epi16(out + m * g.n + n, first(count), rounded(_mm512_add_ps(in_order(sums_of(sums)), start)));
    }
  }
}

constexpr int kVectors = 4;              // Vector registers of one tile: 64 columns.
constexpr int64_t kBlockProducts = 128;  // Products per partial sum. Bounds rounding errors; the tests of the numeric policy hold with it.

// Computes columns [n, n + 64), limited by `masks` unless kWhole.
template <bool kWhole>
TENON_AVX512 void run_columns(const Gemv& g, const float* left, const float* right, const float* bias, float* out, int64_t n,
                              const __mmask16 (&masks)[kVectors]) {
  auto load = [&](const float* from, int v)
                  TENON_AVX512 { return kWhole ? _mm512_loadu_ps(from + v * kLanes) : _mm512_maskz_loadu_ps(masks[v], from + v * kLanes); };
  for (int64_t m = 0; m < g.m; ++m) {
    const float* x = left + m * g.left_stride;
    __m512 totals[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) totals[v] = bias ? load(bias + n, v) : _mm512_setzero_ps();
    auto add = [&](__m512(&sums)[kVectors], int64_t k) TENON_AVX512 {
      __m512 one = _mm512_set1_ps(x[k]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[v] = _mm512_fmadd_ps(one, load(right + k * g.n + n, v), sums[v]);
    };
    // Sums are taken per block of k, so that rounding errors do not grow with k.
    for (int64_t block = 0; block < g.k; block += kBlockProducts) {
      __m512 even[kVectors], odd[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) even[v] = odd[v] = _mm512_setzero_ps();
      int64_t k = block, end = std::min(g.k, block + kBlockProducts);
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

TENON_AVX512 void run_row_major(const Gemv& g, const float* left, const float* right, const float* bias, float* out, int64_t begin,
                                int64_t end) {
  for (int64_t n = begin; n < end; n += kVectors * kLanes) {
    __mmask16 masks[kVectors];
    for (int v = 0; v < kVectors; ++v) masks[v] = first(std::clamp<int64_t>(end - n - v * kLanes, 0, kLanes));
    if (end - n >= kVectors * kLanes) run_columns<true>(g, left, right, bias, out, n, masks);
    else run_columns<false>(g, left, right, bias, out, n, masks);
  }
}

}  // namespace

bool has_gemv() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl");
  return has;
}

void run_gemv(const Gemv& what, const float* left, const float* right, const float* bias, float* out, int64_t begin, int64_t end) {
  constexpr int64_t kMaxCachedElements = int64_t{1} << 16;  // 256 KiB of f32, within L2. A larger matrix is prefetched from memory.
  if (what.transposed && what.n * what.k > kMaxCachedElements) run_transposed<true>(what, left, right, bias, out, begin, end);
  else if (what.transposed) run_transposed<false>(what, left, right, bias, out, begin, end);
  else run_row_major(what, left, right, bias, out, begin, end);
}

void run_gemv(const Gemv& what, const uint16_t* left, const uint16_t* right, const uint16_t* bias, uint16_t* out, int64_t begin,
              int64_t end) {
  run_transposed(what, left, right, bias, out, begin, end);
}

}  // namespace tenon::runtime
