// Causal language models: the interface between a model family and text generation.
#pragma once

#include <optional>
#include <vector>

#include <tenon/models.h>

namespace tenon {

// Keys and values of the tokens so far. Each tensor is [batch, capacity, kv heads, head size], one pair per layer, updated in place.
struct KeyValueCache {
  std::vector<at::Tensor> keys, values;
  template <class F>
  auto visit(F&& f) {
    return f(keys, values);
  }
};

// Positions of a call's tokens in their texts, and the cache. All of it is data, so one compiled graph serves every position.
struct AttentionContext {
  // int64 [batch, length] or [1, length]: position ids.
  at::Tensor positions;
  // Without a cache: [batch, 1, length, keys], added to the scores. If it is undefined, attention is causal.
  at::Tensor mask;
  // The mask of layers with a window. If it is undefined, `mask` is used.
  at::Tensor window_mask;

  // Null if there are no earlier tokens.
  KeyValueCache* cache = nullptr;
  // int64 [length]: consecutive indices in the cache where the new keys and values are written.
  at::Tensor cache_positions;
  // int64 [batch]: number of padding entries at the start of each batch row of the cache.
  at::Tensor padding;
  // Number of tokens that a token attends to in layers with a window, itself included; 0 for all.
  int64_t window = 0;
};

// What a layer's attention computes; see attend() in tenon/family.h.
struct AttentionOptions {
  double dropout = 0;
  std::optional<double> scale = {};
  double softcap = 0;
  // Whether the layer has the context's window. Otherwise it attends to all earlier tokens.
  bool windowed = true;
};

// Attention of a layer's new tokens to themselves and to earlier ones. q, k and v are [batch, heads or kv heads, length, head size].
// Writes k and v to the cache. Returns [batch, length, heads * head size].
TENON_API at::Tensor attend_with_cache(const AttentionContext& context, size_t layer, const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const AttentionOptions& options = {});

// Base class of causal language models. Not thread-safe while parameters change; otherwise calls may be made from several threads.
class TENON_API CausalModel : public Model {
 public:
  struct Sizes {
    int64_t layers, kv_heads, head_size, positions, vocabulary;
    // Number of tokens that a token attends to in layers with a window, itself included; 0 for all.
    int64_t window = 0;
    // Whether there are layers without the window (AttentionOptions::windowed is false).
    bool has_full_layers = false;
    // Whether positions count only tokens whose mask is not 0, as in OPT. Otherwise they count all tokens.
    bool masked_positions = false;
  };
  explicit CausalModel(Sizes sizes) : sizes_(sizes) {}

  // Returns the logits [batch, vocabulary] of the token after the last one of each batch row.
  at::Tensor next(const at::Tensor& ids, const AttentionContext& context, const Rows* rows = nullptr);

  const Sizes& sizes() const { return sizes_; }
  at::ScalarType type() const { return named_parameters().front().value().scalar_type(); }
  KeyValueCache make_cache(int64_t batch, int64_t capacity) const;

 protected:
  at::Tensor compute(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types) override;
  // Returns the last hidden states, [batch, length, width].
  virtual at::Tensor hidden(const at::Tensor& ids, const AttentionContext& context) = 0;
  virtual at::Tensor logits(const at::Tensor& hidden) = 0;

 private:
  Sizes sizes_;
};

}  // namespace tenon
