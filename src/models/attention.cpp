// Multi-head attention, and the masks of causal models.
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <tenon/causal.h>
#include <tenon/family.h>

#include <cmath>
#include <limits>

#include "models/adapter_site.h"
#include "models/inputs.h"

namespace tenon {

at::Tensor split_heads(const at::Tensor& x, int64_t head_size) { return x.view({x.size(0), x.size(1), -1, head_size}).transpose(1, 2); }

at::Tensor merge_heads(const at::Tensor& x) { return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1}); }

namespace {

// Repeats keys or values [batch, kv heads, keys, size] for the heads that share them.
at::Tensor repeat_heads(const at::Tensor& x, int64_t heads) {
  int64_t batch = x.size(0), kv_heads = x.size(1), group = heads / kv_heads, size = x.size(3);
  if (group == 1) return x;
  return x.unsqueeze(2).expand({batch, kv_heads, group, x.size(2), size}).reshape({batch, heads, x.size(2), size});
}

// libtorch's fused attention has no softcap, so this is Transformers' "eager" attention, op by op.
at::Tensor attend_with_softcap(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask, bool causal,
                               double dropout, double scale, double softcap) {
  int64_t heads = q.size(1), queries = q.size(2), keys = k.size(2);
  at::Tensor scores = at::matmul(q, repeat_heads(k, heads).transpose(2, 3)) * scale;
  scores = at::tanh(scores / softcap) * softcap;
  if (mask.defined()) scores = scores + mask;
  else if (causal) scores = scores + causal_mask(queries, /*window=*/0, {}, q.scalar_type(), keys - queries);
  at::Tensor weights = at::dropout(at::softmax(scores, -1, at::kFloat).to(q.scalar_type()), dropout, /*train=*/true);
  return at::matmul(weights, repeat_heads(v, heads));
}

}  // namespace

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask, bool causal, double dropout,
                  std::optional<double> scale, double softcap) {
  int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), size = q.size(3), kv_heads = k.size(1);
  if (softcap != 0)
    return attend_with_softcap(q, k, v, mask, causal, dropout, scale.value_or(1 / std::sqrt(static_cast<double>(size))), softcap);
  std::optional<at::Tensor> bias;
  if (mask.defined()) bias = mask;
  bool is_causal = causal && !bias;
  if (heads == kv_heads) return at::scaled_dot_product_attention(q, k, v, bias, dropout, is_causal, scale);
  // Heads that share keys are the rows of one product, so keys and values need not be repeated.
  if (queries == 1)
    return at::scaled_dot_product_attention(q.reshape({batch, kv_heads, heads / kv_heads, size}), k, v, bias, dropout, false, scale)
        .reshape({batch, heads, 1, size});
  return at::scaled_dot_product_attention(q, repeat_heads(k, heads), repeat_heads(v, heads), bias, dropout, is_causal, scale);
}

namespace {

at::Tensor as_scores(const at::Tensor& visible, at::ScalarType type) {
  return at::where(visible, at::zeros({}, type), at::full({}, -std::numeric_limits<double>::infinity(), type));
}

}  // namespace

at::Tensor padding_mask(const at::Tensor& mask, at::ScalarType type) { return as_scores(mask.ne(0).unsqueeze(1).unsqueeze(2), type); }

at::Tensor causal_mask(int64_t length, int64_t window, const at::Tensor& mask, at::ScalarType type, int64_t first) {
  at::Tensor keys = at::arange(first + length, at::kLong), distance = keys.narrow(0, first, length).unsqueeze(1) - keys.unsqueeze(0);
  at::Tensor visible = distance >= 0;
  if (window > 0) visible = visible.logical_and(distance < window);
  visible = visible.unsqueeze(0).unsqueeze(0);
  if (mask.defined()) {
    visible = visible.logical_and(mask.ne(0).unsqueeze(1).unsqueeze(2));
    visible = visible.logical_or((distance == 0).logical_and(visible.any(-1, /*keepdim=*/true).logical_not()));
  }
  return as_scores(visible, type);
}

AttentionContext models::context_of(const at::Tensor& ids, const at::Tensor& mask, const CausalModel::Sizes& sizes, at::ScalarType type) {
  int64_t length = ids.size(1);
  bool windowed = sizes.window > 0 && length > sizes.window;
  AttentionContext context;
  if (sizes.masked_positions && mask.defined()) {
    at::Tensor counted = mask.ne(0).to(at::kLong);
    context.positions = counted.cumsum(1) * counted - 1;
  } else {
    context.positions = at::arange(length, at::kLong).unsqueeze(0);
  }
  if (mask.defined() && (!windowed || sizes.has_full_layers)) context.mask = causal_mask(length, /*window=*/0, mask, type);
  if (windowed) context.window_mask = causal_mask(length, sizes.window, mask, type);
  return context;
}

at::Tensor CausalModel::compute(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types) {
  models::check_text(ids, mask, types);
  return logits(hidden(ids, models::context_of(ids, mask, sizes_, type())));
}

at::Tensor CausalModel::next(const at::Tensor& ids, const AttentionContext& context, const Rows* rows) {
  models::PinScope pin(rows_or_default(rows), *bank(), rows != nullptr);
  return logits(hidden(ids, context).select(1, -1));
}

KeyValueCache CausalModel::make_cache(int64_t batch, int64_t capacity) const {
  KeyValueCache cache;
  at::ScalarType type = this->type();
  for (int64_t i = 0; i < sizes_.layers; ++i)
    for (auto* side : {&cache.keys, &cache.values}) side->push_back(at::empty({batch, capacity, sizes_.kv_heads, sizes_.head_size}, type));
  return cache;
}

}  // namespace tenon
