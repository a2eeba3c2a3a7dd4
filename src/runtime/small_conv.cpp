#include "runtime/small_conv.h"

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own header.
#include <immintrin.h>

#include <algorithm>

namespace tenon::runtime {
namespace {

#define TENON_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))

constexpr int64_t kLanes = SmallConv::kLanes;
constexpr int kPixels = 8;              // Neighbouring pixels of one row of the result that a tile computes.
constexpr int64_t kBlockProducts = 96;  // Products per partial sum. Bounds rounding errors; the tests of the numeric policy hold with it.

// Computes pixels [x, x + count) of one row of the result, channels [first, first + kVectors * kLanes).
template <int kVectors>
TENON_AVX512 void run_tile(const SmallConv& c, const float* image, const float* weight, const float* bias, const float* other,
                           const float* zeros, float* out, int64_t y, int64_t x, int64_t count, int64_t first) {
  __m512 totals[kPixels][kVectors], sums[kPixels][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kPixels; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      totals[i][v] = _mm512_loadu_ps(bias + first + v * kLanes);
      sums[i][v] = _mm512_setzero_ps();
    }
  // Partial sums are added to the totals after every kBlockProducts products, so that rounding errors do not grow with the number of
  // channels.
  int64_t since = 0;
  auto add_to_totals = [&]() TENON_AVX512 {
#pragma GCC unroll 8
    for (int i = 0; i < kPixels; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        totals[i][v] = _mm512_add_ps(totals[i][v], sums[i][v]);
        sums[i][v] = _mm512_setzero_ps();
      }
  };
  int64_t padded = c.padded_outputs();
  int64_t in_x[kPixels];  // Columns of the image that the first column of the weight meets.
  for (int64_t i = 0; i < kPixels; ++i) in_x[i] = (x + std::min(i, count - 1)) * c.stride[1] - c.padding[1];
  for (int64_t ky = 0; ky < c.rows; ++ky) {
    int64_t in_y = y * c.stride[0] - c.padding[0] + ky * c.dilation[0];
    if (in_y < 0 || in_y >= c.height) continue;
    for (int64_t kx = 0; kx < c.columns; ++kx) {
      const float* pixels[kPixels];
      const float* row = image + (in_y * c.width + kx * c.dilation[1]) * c.channels;
#pragma GCC unroll 8
      for (int64_t i = 0; i < kPixels; ++i) {
        // One comparison and no branch, because a tile at an edge has both kinds of pixels.
        bool is_inside = static_cast<uint64_t>(in_x[i] + kx * c.dilation[1]) < static_cast<uint64_t>(c.width);
        pixels[i] = is_inside ? row + in_x[i] * c.channels : zeros;
      }
      const float* w = weight + (ky * c.columns + kx) * c.channels * padded + first;
      for (int64_t block = 0; block < c.channels; block += kBlockProducts) {
        int64_t end = std::min(c.channels, block + kBlockProducts);
        since += end - block;
        if (since > kBlockProducts) {
          add_to_totals();
          since = end - block;
        }
        for (int64_t k = block; k < end; ++k, w += padded) {
          __m512 some[kVectors];
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) some[v] = _mm512_loadu_ps(w + v * kLanes);
#pragma GCC unroll 8
          for (int i = 0; i < kPixels; ++i) {
            __m512 pixel = _mm512_set1_ps(pixels[i][k]);
#pragma GCC unroll 2
            for (int v = 0; v < kVectors; ++v) sums[i][v] = _mm512_fmadd_ps(pixel, some[v], sums[i][v]);
          }
        }
      }
    }
  }
  add_to_totals();
#pragma GCC unroll 8
  for (int i = 0; i < kPixels; ++i) {
    if (i >= count) break;
    int64_t at = (y * c.out_width + x + i) * c.outputs + first;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      int64_t left = std::clamp<int64_t>(c.outputs - first - v * kLanes, 0, kLanes);
      auto mask = static_cast<__mmask16>(left == kLanes ? 0xffff : (1u << left) - 1);
      __m512 sum = totals[i][v];
      if (other) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, other + at + v * kLanes));
      // NaN stays NaN, as in libtorch.
      if (c.has_relu) sum = _mm512_mask_mov_ps(_mm512_setzero_ps(), _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NLE_UQ), sum);
      _mm512_mask_storeu_ps(out + at + v * kLanes, mask, sum);
    }
  }
}

}  // namespace

void run_small_conv(const SmallConv& c, const float* image, const float* weight, const float* bias, const float* other, const float* zeros,
                    float* out) {
  int64_t padded = c.padded_outputs();
  for (int64_t n = 0; n < c.images; ++n) {
    const float* from = image + n * c.height * c.width * c.channels;
    int64_t shift = n * c.out_height * c.out_width * c.outputs;
    const float* added = other ? other + shift : nullptr;
    for (int64_t y = 0; y < c.out_height; ++y)
      for (int64_t x = 0; x < c.out_width; x += kPixels) {
        int64_t count = std::min<int64_t>(kPixels, c.out_width - x), first = 0;
        for (; first + 2 * kLanes <= padded; first += 2 * kLanes)
          run_tile<2>(c, from, weight, bias, added, zeros, out + shift, y, x, count, first);
        if (first < padded) run_tile<1>(c, from, weight, bias, added, zeros, out + shift, y, x, count, first);
      }
  }
}

}  // namespace tenon::runtime
