// The dispatcher op tenon::attend_cached: attention to a partially filled cache. The number of filled positions is data, not a size, so
// that one graph serves every position in a text.
#include <ATen/Dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/TensorOperators.h>
#include <tenon/causal.h>
#include <tenon/family.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clones.h"
#include "bridge/parallel.h"

namespace tenon {

namespace {

#pragma GCC diagnostic ignored "-Wpsabi"  // The warning is irrelevant for functions that are always inlined.
#define TENON_WIDE TENON_CLONES("avx512f", "avx2", "default")
constexpr int64_t kLanes = 16;  // Floats of a 512-bit register.
using Lanes = float __attribute__((vector_size(64), aligned(4)));
using Integers = uint32_t __attribute__((vector_size(64)));
using Shorts = uint16_t __attribute__((vector_size(32), aligned(2)));

[[gnu::always_inline]] inline Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
// A bf16 is the upper half of an f32.
[[gnu::always_inline]] inline Lanes load(const at::BFloat16* from) {
  return (Lanes)(__builtin_convertvector(*reinterpret_cast<const Shorts*>(from), Integers) << 16);
}

[[gnu::always_inline]] inline float sum_of(Lanes v) {
  auto halves = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  auto quarters = __builtin_shufflevector(halves, halves, 0, 1, 2, 3) + __builtin_shufflevector(halves, halves, 4, 5, 6, 7);
  return (quarters[0] + quarters[2]) + (quarters[1] + quarters[3]);
}

template <class T>
[[gnu::always_inline]] inline float dot_of(const float* a, const T* b, int64_t count) {
  Lanes sums = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sums += load(a + i) * load(b + i);
  float sum = sum_of(sums);
  for (; i < count; ++i) sum += a[i] * static_cast<float>(b[i]);
  return sum;
}

template <class T>
[[gnu::always_inline]] inline void add_scaled_of(float* to, float scale, const T* from, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) *reinterpret_cast<Lanes*>(to + i) += load(from + i) * scale;
  for (; i < count; ++i) to[i] += scale * static_cast<float>(from[i]);
}

TENON_WIDE float dot(const float* a, const float* b, int64_t count) { return dot_of(a, b, count); }
TENON_WIDE float dot(const float* a, const at::BFloat16* b, int64_t count) { return dot_of(a, b, count); }
TENON_WIDE void add_scaled(float* to, float scale, const float* from, int64_t count) { add_scaled_of(to, scale, from, count); }
TENON_WIDE void add_scaled(float* to, float scale, const at::BFloat16* from, int64_t count) { add_scaled_of(to, scale, from, count); }

// Returns the elements in a type that dot and add_scaled accept: unchanged, or converted to f32 in `scratch`.
const float* as_summed(const float* from, int64_t, float*) { return from; }
const at::BFloat16* as_summed(const at::BFloat16* from, int64_t, float*) { return from; }
template <class T>
const float* as_summed(const T* from, int64_t count, float* scratch) {
  for (int64_t i = 0; i < count; ++i) scratch[i] = static_cast<float>(from[i]);
  return scratch;
}

void softmax(float* scores, int64_t count) {
  float largest = *std::max_element(scores, scores + count), total = 0;
  for (int64_t j = 0; j < count; ++j) total += scores[j] = std::exp(scores[j] - largest);
  for (int64_t j = 0; j < count; ++j) scores[j] /= total;
}

// What the op computes beside its operands. A window or softcap of 0 means that there is none.
struct ScoreSettings {
  int64_t window;
  double scale, softcap;
};

// Attention of one new token per sample: each kv head's group of queries attends to the visible keys. Sums are f32.
template <class T>
void attend_one(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, int64_t position, const int64_t* padding,
                const ScoreSettings& settings, at::Tensor& out) {
  int64_t batch = q.size(0), heads = q.size(1), size = q.size(3), capacity = keys.size(1), kv_heads = keys.size(2),
          group = heads / kv_heads;
  const T *k = keys.const_data_ptr<T>(), *v = values.const_data_ptr<T>(), *queries = q.const_data_ptr<T>();
  T* to = out.data_ptr<T>();
  int64_t window = settings.window;
  float scale = static_cast<float>(settings.scale), softcap = static_cast<float>(settings.softcap);
  // Fewer multiplications are not worth another thread. About a microsecond of work. Estimate, not measured.
  constexpr int64_t kMinMultipliesPerThread = 1 << 15;
  int64_t grain = std::max<int64_t>(1, kMinMultipliesPerThread / (group * size * (position + 1)));
  bridge::parallel_for(0, batch * kv_heads, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(group * (position + 1))), query(static_cast<size_t>(group * size)), sum(query.size()),
        scratch(static_cast<size_t>(size));
    for (int64_t i = begin; i < end; ++i) {
      int64_t sample = i / kv_heads, head = i % kv_heads, at = (sample * heads + head * group) * size;
      int64_t first = std::max(padding[sample], window > 0 ? position - window + 1 : 0), seen = position + 1 - first;
      auto token = [&](const T* cache, int64_t j) {
        return as_summed(cache + ((sample * capacity + first + j) * kv_heads + head) * size, size, scratch.data());
      };
      for (int64_t n = 0; n < group * size; ++n) query[n] = static_cast<float>(queries[at + n]) * scale;
      for (int64_t j = 0; j < seen; ++j) {
        const auto* key = token(k, j);
        for (int64_t g = 0; g < group; ++g) scores[g * seen + j] = dot(query.data() + g * size, key, size);
      }
      if (softcap != 0)
        for (int64_t n = 0; n < group * seen; ++n) scores[n] = softcap * std::tanh(scores[n] / softcap);
      for (int64_t g = 0; g < group; ++g) softmax(scores.data() + g * seen, seen);
      std::fill(sum.begin(), sum.end(), 0.f);
      for (int64_t j = 0; j < seen; ++j) {
        const auto* value = token(v, j);
        for (int64_t g = 0; g < group; ++g) add_scaled(sum.data() + g * size, scores[g * seen + j], value, size);
      }
      for (int64_t n = 0; n < group * size; ++n) to[at + n] = static_cast<T>(sum[n]);
    }
  });
}

// Attention of several new tokens per sample, computed by libtorch over the filled part of the cache.
at::Tensor attend_several(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, int64_t first, const at::Tensor& padding,
                          const ScoreSettings& settings) {
  int64_t length = q.size(2), seen = first + length, window = settings.window;
  at::Tensor k = keys.narrow(1, 0, seen).transpose(1, 2), v = values.narrow(1, 0, seen).transpose(1, 2), mask;
  bool padded = padding.ne(0).any().item<bool>();
  if (first != 0 || padded || (window != 0 && length > window)) {
    at::Tensor visible = at::arange(seen, at::kLong).unsqueeze(0) >= padding.unsqueeze(1);
    mask = causal_mask(length, window, visible, q.scalar_type(), first);
  }
  return attend(q, k, v, mask, /*causal=*/true, /*dropout=*/0, settings.scale, settings.softcap);
}

at::Tensor attend_cached(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& cache_positions,
                         const at::Tensor& padding, int64_t window, double scale, double softcap) {
  ScoreSettings settings{window, scale, softcap};
  int64_t length = q.size(2), first = cache_positions.const_data_ptr<int64_t>()[0];
  TORCH_CHECK_INDEX(first >= 0 && first + length <= keys.size(1), "attend_cached: cache positions are outside of the cache");
  if (length > 1) return merge_heads(attend_several(q, keys, values, first, padding, settings)).contiguous();
  at::Tensor out = at::empty({q.size(0), 1, q.size(1) * q.size(3)}, q.options());
  at::Tensor queries = q.contiguous();
  at::Tensor padding_counts = padding.contiguous();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, q.scalar_type(), "attend_cached", [&] {
    attend_one<scalar_t>(queries, keys, values, first, padding_counts.const_data_ptr<int64_t>(), settings, out);
  });
  return out;
}

at::Tensor attend_cached_shape(const at::Tensor& q, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t,
                               double, double) {
  return at::empty({q.size(0), q.size(2), q.size(1) * q.size(3)}, q.options());
}

using AttendCached = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t,
                                double, double);

TORCH_LIBRARY_FRAGMENT(tenon, library) {
  library.def(
      "attend_cached(Tensor q, Tensor keys, Tensor values, Tensor cache_positions, Tensor padding, int window, float scale, "
      "float softcap) -> Tensor");
}
TORCH_LIBRARY_IMPL(tenon, CPU, library) { library.impl("attend_cached", attend_cached); }
TORCH_LIBRARY_IMPL(tenon, Meta, library) { library.impl("attend_cached", attend_cached_shape); }

}  // namespace

at::Tensor attend_with_cache(const AttentionContext& context, size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const AttentionOptions& options) {
  if (!context.cache) {
    const at::Tensor& mask = options.windowed && context.window_mask.defined() ? context.window_mask : context.mask;
    return merge_heads(attend(q, k, v, mask, /*causal=*/true, options.dropout, options.scale, options.softcap));
  }
  at::Tensor &keys = context.cache->keys[layer], &values = context.cache->values[layer];
  keys.index_copy_(1, context.cache_positions, k.transpose(1, 2));
  values.index_copy_(1, context.cache_positions, v.transpose(1, 2));
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tenon::attend_cached", "").typed<AttendCached>();
  double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  return op.call(q, keys, values, context.cache_positions, context.padding, options.windowed ? context.window : 0, scale, options.softcap);
}

}  // namespace tenon
