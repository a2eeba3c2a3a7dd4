// tenon::attend_cached, an op of libtorch's dispatcher: attention to a cache of which a part is filled. How much is data, not a
// size, so that one graph serves every place in a text.
#include <ATen/Dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <tenon/causal.h>
#include <tenon/family.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

namespace tenon {

namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// One token a row: for each kv head, its group of queries against the keys that they see. Sums are f32.
template <class T>
void attend_one(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, int64_t place, const int64_t* padding,
                int64_t window, at::Tensor& out) {
  int64_t batch = q.size(0), heads = q.size(1), size = q.size(3), capacity = keys.size(1), kv_heads = keys.size(2),
          group = heads / kv_heads;
  const T *k = keys.const_data_ptr<T>(), *v = values.const_data_ptr<T>(), *queries = q.const_data_ptr<T>();
  T* to = out.data_ptr<T>();
  float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(size)));
  at::parallel_for(0, batch * kv_heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(group * (place + 1))), query(static_cast<size_t>(group * size)), sum(query.size());
    for (int64_t i = begin; i < end; ++i) {
      int64_t row = i / kv_heads, head = i % kv_heads;
      int64_t first = std::max(padding[row], window > 0 ? place - window + 1 : 0), seen = place + 1 - first;
      const T* row_k = k + (row * capacity + first) * kv_heads * size + head * size;
      const T* row_v = v + (row * capacity + first) * kv_heads * size + head * size;
      int64_t at = (row * heads + head * group) * size;
      for (int64_t n = 0; n < group * size; ++n) query[n] = static_cast<float>(queries[at + n]) * scale;
      for (int64_t j = 0; j < seen; ++j) {
        const T* key = row_k + j * kv_heads * size;
        for (int64_t g = 0; g < group; ++g) {
          float dot = 0;
          const float* one = query.data() + g * size;
#pragma omp simd reduction(+ : dot)
          for (int64_t d = 0; d < size; ++d) dot += one[d] * static_cast<float>(key[d]);
          scores[g * seen + j] = dot;
        }
      }
      std::fill(sum.begin(), sum.end(), 0.f);
      for (int64_t g = 0; g < group; ++g) {
        float *s = scores.data() + g * seen, most = *std::max_element(s, s + seen), total = 0;
        for (int64_t j = 0; j < seen; ++j) total += s[j] = std::exp(s[j] - most);
        for (int64_t j = 0; j < seen; ++j) s[j] /= total;
      }
      for (int64_t j = 0; j < seen; ++j) {
        const T* value = row_v + j * kv_heads * size;
        for (int64_t g = 0; g < group; ++g) {
          float weight = scores[g * seen + j], *one = sum.data() + g * size;
#pragma omp simd
          for (int64_t d = 0; d < size; ++d) one[d] += weight * static_cast<float>(value[d]);
        }
      }
      for (int64_t n = 0; n < group * size; ++n) to[at + n] = static_cast<T>(sum[n]);
    }
  });
}

// Several tokens a row: libtorch's attention over what is filled.
at::Tensor attend_several(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, int64_t first, const at::Tensor& padding,
                          int64_t window) {
  int64_t length = q.size(2), seen = first + length;
  at::Tensor k = keys.narrow(1, 0, seen).transpose(1, 2), v = values.narrow(1, 0, seen).transpose(1, 2);
  bool padded = padding.ne(0).any().item<bool>();
  if (first == 0 && !padded && (window == 0 || length <= window)) return attend(q, k, v, {}, /*causal=*/true);
  at::Tensor columns = at::arange(seen, at::kLong), distance = at::arange(first, seen, at::kLong).unsqueeze(1) - columns.unsqueeze(0);
  at::Tensor counts = distance >= 0;
  if (window > 0) counts = counts.logical_and(distance < window);
  counts = counts.unsqueeze(0).logical_and((columns.unsqueeze(0) >= padding.unsqueeze(1)).unsqueeze(1)).logical_or(distance == 0);
  at::Tensor mask = at::where(counts.unsqueeze(1), at::zeros({}, q.scalar_type()), at::full({}, kNothing, q.scalar_type()));
  return attend(q, k, v, mask, /*causal=*/true);
}

at::Tensor attend_cached(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& slots,
                         const at::Tensor& padding, int64_t window) {
  int64_t length = q.size(2), first = slots.const_data_ptr<int64_t>()[0];
  TORCH_CHECK_INDEX(first >= 0 && first + length <= keys.size(1), "attend_cached: slots are not in the cache");
  if (length > 1) return merge_heads(attend_several(q, keys, values, first, padding, window)).contiguous();
  at::Tensor out = at::empty({q.size(0), 1, q.size(1) * q.size(3)}, q.options());
  at::Tensor queries = q.contiguous();
  at::Tensor counts = padding.contiguous();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, q.scalar_type(), "attend_cached", [&] {
    attend_one<scalar_t>(queries, keys, values, first, counts.const_data_ptr<int64_t>(), window, out);
  });
  return out;
}

at::Tensor attend_cached_shape(const at::Tensor& q, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t) {
  return at::empty({q.size(0), q.size(2), q.size(1) * q.size(3)}, q.options());
}

using AttendCached = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t);

TORCH_LIBRARY_FRAGMENT(tenon, library) {
  library.def("attend_cached(Tensor q, Tensor keys, Tensor values, Tensor slots, Tensor padding, int window) -> Tensor");
}
TORCH_LIBRARY_IMPL(tenon, CPU, library) { library.impl("attend_cached", attend_cached); }
TORCH_LIBRARY_IMPL(tenon, Meta, library) { library.impl("attend_cached", attend_cached_shape); }

}  // namespace

at::Tensor attend_at(const Places& places, size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double dropout) {
  if (!places.cache) return merge_heads(attend(q, k, v, places.mask, /*causal=*/true, dropout));
  at::Tensor &keys = places.cache->keys[layer], &values = places.cache->values[layer];
  keys.index_copy_(1, places.slots, k.transpose(1, 2));
  values.index_copy_(1, places.slots, v.transpose(1, 2));
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tenon::attend_cached", "").typed<AttendCached>();
  return op.call(q, keys, values, places.slots, places.padding, places.window);
}

}  // namespace tenon
