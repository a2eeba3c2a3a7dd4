#include "adapters/low_rank.h"

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cstring>

#include "base/clones.h"

namespace tenon::adapters {

namespace {

#pragma GCC diagnostic ignored "-Wpsabi"  // The warning is irrelevant for functions that are always inlined.
#define TENON_WIDE TENON_CLONES("avx512f", "fma", "default")
#define TENON_INLINE [[gnu::always_inline]] inline

// Inputs are summed in groups of this size to bound rounding errors. Not measured.
constexpr int64_t kInputsPerPartialSum = 128;
// How far ahead factors are prefetched that are read once. Estimate; `bench/adapters.py --parts rows` measures the reading of factors.
constexpr int64_t kPrefetchFloats = 512;

// One specialization per width, because g++ ignores a vector_size that depends on a template argument.
template <int kLanes>
struct Lanes;
#define TENON_LANES(count)                                                  \
  template <>                                                               \
  struct Lanes<count> {                                                     \
    using Type = float __attribute__((vector_size(count * 4), aligned(4))); \
  };
TENON_LANES(2)
TENON_LANES(4)
TENON_LANES(8)
TENON_LANES(16)
#undef TENON_LANES
template <>
struct Lanes<1> {
  using Type = float;
};

template <int kLanes>
TENON_INLINE typename Lanes<kLanes>::Type load(const float* from) {
  return *reinterpret_cast<const typename Lanes<kLanes>::Type*>(from);
}

template <int kLanes>
TENON_INLINE void store(float* to, typename Lanes<kLanes>::Type operands) {
  *reinterpret_cast<typename Lanes<kLanes>::Type*>(to) = operands;
}

template <int kLanes>
TENON_INLINE void add_to(float* to, typename Lanes<kLanes>::Type operands) {
  *reinterpret_cast<typename Lanes<kLanes>::Type*>(to) += operands;
}

// Computes ranks [0, kLanes) of sums[t] += x[t] a for kCount tokens. The rows of `a` have `rank` elements.
template <int kLanes, int kCount>
TENON_INLINE void reduce(const float* x, int64_t inputs, const float* a, int64_t rank, float* sums) {
  using V = typename Lanes<kLanes>::Type;
  for (int64_t block = 0; block < inputs; block += kInputsPerPartialSum) {
    V even[kCount] = {}, odd[kCount] = {};
    int64_t k = block, end = std::min(inputs, block + kInputsPerPartialSum);
    for (; k + 2 <= end; k += 2) {
      V first = load<kLanes>(a + k * rank), second = load<kLanes>(a + (k + 1) * rank);
      if constexpr (kCount == 1)
        __builtin_prefetch(a + k * rank + kPrefetchFloats), __builtin_prefetch(a + (k + 1) * rank + kPrefetchFloats);
#pragma GCC unroll 8
      for (int t = 0; t < kCount; ++t) {
        even[t] += first * x[t * inputs + k];
        odd[t] += second * x[t * inputs + k + 1];
      }
    }
    if (k < end) {
      V last = load<kLanes>(a + k * rank);
#pragma GCC unroll 8
      for (int t = 0; t < kCount; ++t) even[t] += last * x[t * inputs + k];
    }
#pragma GCC unroll 8
    for (int t = 0; t < kCount; ++t) add_to<kLanes>(sums + t * rank, even[t] + odd[t]);
  }
}

// Computes outputs [0, kVectors * kLanes) of y[t] += outer * (sums[t] b) for kCount tokens.
template <int kLanes, int kVectors, int kCount, bool kOuter>
TENON_INLINE void accumulate(const float* sums, int64_t rank, const float* b, int64_t b_stride, const float* outer, float* y,
                             int64_t outputs) {
  using V = typename Lanes<kLanes>::Type;
  V out[kVectors][kCount] = {};
  for (int64_t r = 0; r < rank; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      V row = load<kLanes>(b + r * b_stride + v * kLanes);
#pragma GCC unroll 8
      for (int t = 0; t < kCount; ++t) out[v][t] += row * sums[t * rank + r];
    }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v)
#pragma GCC unroll 8
    for (int t = 0; t < kCount; ++t) {
      // Two statements instead of one conditional expression, which would round differently for some of the tokens.
      if constexpr (kOuter) add_to<kLanes>(y + t * outputs + v * kLanes, out[v][t] * load<kLanes>(outer + v * kLanes));
      else add_to<kLanes>(y + t * outputs + v * kLanes, out[v][t]);
    }
}

struct Operands {
  const float *a, *b, *middle, *outer;
  const float* next;  // The address that is read next, for prefetching.
  int64_t rank, b_stride;
  float scale;
};

template <int kCount, bool kOuter>
TENON_INLINE void accumulate_tokens(const Operands& n, const float* sums, float* y, int64_t outputs) {
  constexpr int kVectors = 2;  // Vectors of results per step, with one register per token and vector. Estimate, not measured.
  int64_t o = 0;
  for (; o + 16 * kVectors <= outputs; o += 16 * kVectors)
    accumulate<16, kVectors, kCount, kOuter>(sums, n.rank, n.b + o, n.b_stride, kOuter ? n.outer + o : nullptr, y + o, outputs);
  for (; o + 16 <= outputs; o += 16)
    accumulate<16, 1, kCount, kOuter>(sums, n.rank, n.b + o, n.b_stride, kOuter ? n.outer + o : nullptr, y + o, outputs);
  for (; o < outputs; ++o)
    accumulate<1, 1, kCount, kOuter>(sums, n.rank, n.b + o, n.b_stride, kOuter ? n.outer + o : nullptr, y + o, outputs);
}

// Computes all[o] += sums b for ranks [0, kRanks), whose rows of b are consecutive in memory, in the same order as `accumulate`. Prefetches
// as many elements at `next`.
template <int kRanks>
TENON_INLINE void accumulate_ranks(const float* sums, const float* b, int64_t b_stride, const float* next, float* all, int64_t outputs) {
  int64_t o = 0;
  for (; o + 16 <= outputs; o += 16) {
    auto out = load<16>(all + o);
#pragma GCC unroll 4
    for (int r = 0; r < kRanks; ++r) {
      __builtin_prefetch(next + r * b_stride + o);
      out += load<16>(b + r * b_stride + o) * sums[r];
    }
    store<16>(all + o, out);
  }
  for (; o < outputs; ++o)
    for (int r = 0; r < kRanks; ++r) all[o] += b[r * b_stride + o] * sums[r];
}

// The same as accumulate_tokens for one token: b is read once, in memory order. `all` is a scratch buffer for the outputs.
template <bool kOuter>
TENON_INLINE void accumulate_token(const Operands& n, const float* sums, float* y, int64_t outputs, float* all) {
  std::fill(all, all + outputs, 0.f);
  int64_t r = 0;
  auto row = [&](int64_t i) { return i < n.rank ? n.b + i * n.b_stride : n.next; };
  for (; r + 4 <= n.rank; r += 4) accumulate_ranks<4>(sums + r, row(r), n.b_stride, row(r + 4), all, outputs);
  for (; r < n.rank; ++r) accumulate_ranks<1>(sums + r, row(r), n.b_stride, row(r + 1), all, outputs);
  int64_t o = 0;
  for (; o + 16 <= outputs; o += 16) {
    if constexpr (kOuter) add_to<16>(y + o, load<16>(all + o) * load<16>(n.outer + o));
    else add_to<16>(y + o, load<16>(all + o));
  }
  for (; o < outputs; ++o) {
    if constexpr (kOuter) y[o] += all[o] * n.outer[o];
    else y[o] += all[o];
  }
}

template <int kCount>
TENON_INLINE void add_tokens(const Operands& n, const float* x, int64_t inputs, float* y, int64_t outputs, float* sums) {
  if constexpr (kCount == 1)
    for (int64_t i = 0; i < kPrefetchFloats; i += 16) __builtin_prefetch(n.b + i);
  std::fill(sums, sums + kCount * n.rank, 0.f);
  int64_t r = 0;
  for (; r + 16 <= n.rank; r += 16) reduce<16, kCount>(x, inputs, n.a + r, n.rank, sums + r);
  if (r + 8 <= n.rank) reduce<8, kCount>(x, inputs, n.a + r, n.rank, sums + r), r += 8;
  if (r + 4 <= n.rank) reduce<4, kCount>(x, inputs, n.a + r, n.rank, sums + r), r += 4;
  if (r + 2 <= n.rank) reduce<2, kCount>(x, inputs, n.a + r, n.rank, sums + r), r += 2;
  if (r < n.rank) reduce<1, kCount>(x, inputs, n.a + r, n.rank, sums + r);
  for (int t = 0; t < kCount; ++t)
    for (int64_t i = 0; i < n.rank; ++i) sums[t * n.rank + i] *= n.middle ? n.middle[i] * n.scale : n.scale;
  if constexpr (kCount == 1) {
    if (n.outer) accumulate_token<true>(n, sums, y, outputs, sums + n.rank);
    else accumulate_token<false>(n, sums, y, outputs, sums + n.rank);
  } else {
    if (n.outer) accumulate_tokens<kCount, true>(n, sums, y, outputs);
    else accumulate_tokens<kCount, false>(n, sums, y, outputs);
  }
}

TENON_WIDE void add_block(const Operands& n, const float* x, int64_t inputs, float* y, int64_t outputs, float* sums) {
  add_tokens<kTokensPerBlock>(n, x, inputs, y, outputs, sums);
}
TENON_WIDE void add_one(const Operands& n, const float* x, int64_t inputs, float* y, int64_t outputs, float* sums) {
  add_tokens<1>(n, x, inputs, y, outputs, sums);
}
TENON_WIDE void widen(const c10::BFloat16* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = static_cast<uint32_t>(from[i].x) << 16;
    std::memcpy(to + i, &bits, sizeof bits);
  }
}
TENON_WIDE void narrow(const float* from, c10::BFloat16* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

void add(const Operands& n, const float* x, int64_t inputs, float* y, int64_t outputs, int64_t tokens, float* sums) {
  int64_t t = 0;
  for (; t + kTokensPerBlock <= tokens; t += kTokensPerBlock) add_block(n, x + t * inputs, inputs, y + t * outputs, outputs, sums);
  for (; t < tokens; ++t) add_one(n, x + t * inputs, inputs, y + t * outputs, outputs, sums);
}

}  // namespace

at::Tensor to_column_major(const at::Tensor& matrix) { return matrix.stride(0) == 1 ? matrix : matrix.t().contiguous().t(); }

LowRank LowRank::in_column_major() const { return {to_column_major(a), to_column_major(b), middle, outer, scale}; }

bool has_low_rank(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16; }

void add_low_rank(const LowRank& operands, const LowRankBatch& batch, LowRankScratch& scratch, const LowRank& next) {
  auto [type, inputs, outputs, tokens, x, y] = batch;
  auto data = [](const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; };
  Operands n{data(operands.a), data(operands.b),   data(operands.middle), data(operands.outer),
             data(next.a),     operands.a.size(0), operands.b.stride(1),  static_cast<float>(operands.scale)};
  auto at_least = [](std::vector<float>& v, int64_t count) {
    if (v.size() < static_cast<size_t>(count)) v.resize(static_cast<size_t>(count));
    return v.data();
  };
  float* sums = at_least(scratch.sums, kTokensPerBlock * n.rank + outputs);
  if (type == at::kFloat) return add(n, static_cast<const float*>(x), inputs, static_cast<float*>(y), outputs, tokens, sums);
  float *wide_x = at_least(scratch.x, tokens * inputs), *wide_y = at_least(scratch.y, tokens * outputs);
  widen(static_cast<const c10::BFloat16*>(x), wide_x, tokens * inputs);
  widen(static_cast<const c10::BFloat16*>(y), wide_y, tokens * outputs);
  add(n, wide_x, inputs, wide_y, outputs, tokens, sums);
  narrow(wide_y, static_cast<c10::BFloat16*>(y), tokens * outputs);
}

}  // namespace tenon::adapters
