// Dropout of the input of a low-rank product, as torch::nn::Dropout computes it.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace tenon::adapters {

class InputDropout {
 public:
  InputDropout() = default;
  explicit InputDropout(double probability) : probability_(probability) {}

  bool is_on() const { return probability_ > 0; }
  bool is_drawn() const { return is_drawn_; }
  // Draws which elements are kept, in the order in which x lies in memory, as libtorch does.
  void draw(const at::Tensor& x, const at::Generator& generator);
  // Returns x with the other elements set to zero and these divided by the probability that they are kept; x itself before draw().
  at::Tensor apply(const at::Tensor& x) const;

 private:
  double probability_ = 0;
  bool is_drawn_ = false;
  at::Tensor kept_;  // One bool per element; undefined if all elements are dropped.
};

}  // namespace tenon::adapters
