#include "runtime/tiles.h"

#include <ATen/native/CPUBlas.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/stable/c/shim.h>

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own header.
#include <immintrin.h>

#include <algorithm>

#include "base/error.h"
#include "bridge/access.h"

namespace tenon::runtime {
namespace {

#define TENON_AVX512_BF16 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")))

// Block sizes in elements: a block of the right operand (depth x columns, bf16) is 32 KiB. Estimates, not measured.
constexpr int64_t kBlockColumns = 64, kBlockRows = 256, kBlockDepth = 256;
constexpr int64_t kLanes = 16;

// Stores the sums of one tile plus the bias as bf16.
TENON_AVX512_BF16 void store_tile(const float* sums, int64_t rows, int64_t columns, const c10::BFloat16* bias, c10::BFloat16* out,
                                  int64_t out_stride) {
  for (int64_t c = 0; c < columns; c += kLanes) {
    auto mask = static_cast<__mmask16>(columns - c >= kLanes ? 0xffff : (1u << (columns - c)) - 1);
    __m512 start = _mm512_setzero_ps();
    if (bias) start = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, bias + c)), 16));
    for (int64_t r = 0; r < rows; ++r) {
      __m512 sum = _mm512_add_ps(_mm512_loadu_ps(sums + r * kBlockColumns + c), start);
      _mm256_mask_storeu_epi16(out + r * out_stride + c, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum)));
    }
  }
}

void run_blocks(int64_t begin, int64_t end, void* job) {
  const Tiles& t = *static_cast<const Tiles*>(job);
  alignas(64) thread_local float sums[kBlockRows * kBlockColumns];
  for (int64_t block = begin; block < end; ++block)
    for (int64_t m = 0; m < t.m; m += kBlockRows) {
      int64_t rows = std::min(kBlockRows, t.m - m);
      for (int64_t k = 0; k < t.k; k += kBlockDepth)
        at::native::cpublas::brgemm(rows, kBlockColumns, std::min(kBlockDepth, t.k - k), t.left_stride, kBlockColumns, kBlockColumns,
                                    /*add_C=*/k > 0, t.left + m * t.left_stride + k, t.right + (block * t.k + k) * kBlockColumns, sums,
                                    /*is_vnni=*/true);
      int64_t n = block * kBlockColumns;
      store_tile(sums, rows, std::min(kBlockColumns, t.n - n), t.bias ? t.bias + n : nullptr, t.out + m * t.n + n, t.n);
    }
  at::native::cpublas::brgemm_release(/*is_vnni=*/true);
}

}  // namespace

bool has_tiles() {
  static const bool has = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("amx-bf16");
  return has;
}

Packed pack_tiles(const at::Tensor& weight) {
  at::Tensor right = bridge::borrowed(weight);
  int64_t k = right.size(0), n = right.size(1), blocks = (n + kBlockColumns - 1) / kBlockColumns;
  at::Tensor wide = right.t();
  if (n % kBlockColumns) {
    wide = at::zeros({blocks * kBlockColumns, k}, right.options());
    wide.narrow(0, 0, n).copy_(right.t());
  }
  Packed out;
  out.tensor = wide.reshape({blocks, kBlockColumns, k / 2, 2}).permute({0, 2, 1, 3}).clone(at::MemoryFormat::Contiguous);
  out.bytes = out.tensor.nbytes();
  return out;
}

void run_tiles(const Tiles& what) {
  Tiles job = what;
  if (torch_parallel_for(0, (what.n + kBlockColumns - 1) / kBlockColumns, 1, &run_blocks, &job) != 0)
    throw InternalError("a brgemm product failed on libtorch's threads");
}

}  // namespace tenon::runtime
