// Models that continue text: what generation asks of them.
#pragma once

#include <vector>

#include <tenon/models.h>

namespace tenon {

// Keys and values of the tokens so far, one pair a layer, each [batch, capacity, kv heads, head size] and written in place.
struct KeyValueCache {
  std::vector<at::Tensor> keys, values;
  template <class F>
  auto visit(F&& f) {
    return f(keys, values);
  }
};

// Where a call's tokens stand. All of it is data, so that compiled code serves any place in a text.
struct Places {
  at::Tensor positions;  // int64 [batch, length] or [1, length]: as the model counts them
  at::Tensor mask;       // without a cache: added to the scores, [batch, 1, length, keys]; undefined: each sees all before it

  KeyValueCache* cache = nullptr;  // null: there is nothing before these tokens
  at::Tensor slots;                // int64 [length]: where in the cache they stand, one after another
  at::Tensor padding;              // int64 [batch]: how many slots at the start of each row hold nothing
  int64_t window = 0;              // that a token sees, itself included; 0: all
};

// Attention of a layer's new tokens to themselves and to those before, [batch, heads or kv heads, length, head size] each; the new
// keys and values go into the cache. Returns [batch, length, heads * head size].
at::Tensor attend_at(const Places& places, size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double dropout = 0);

class CausalModel : public Model {
 public:
  struct Sizes {
    int64_t layers, kv_heads, head_size, positions, vocabulary;
    int64_t window = 0;  // that a token sees, itself included; 0: all
  };
  explicit CausalModel(Sizes sizes) : sizes_(sizes) {}

  // Logits [batch, vocabulary] after the last token of each row.
  at::Tensor next(const at::Tensor& ids, const Places& places, const Rows* rows = nullptr);

  const Sizes& sizes() const { return sizes_; }
  at::ScalarType type() const { return named_parameters().front().value().scalar_type(); }
  KeyValueCache make_cache(int64_t batch, int64_t capacity) const;

 protected:
  at::Tensor compute(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types) override;
  virtual at::Tensor hidden(const at::Tensor& ids, const Places& places) = 0;  // [batch, length, width]
  virtual at::Tensor logits(const at::Tensor& hidden) = 0;

 private:
  Sizes sizes_;
};

}  // namespace tenon
