// Dropout of LoHa and LoKr: a call skips the whole adapter, or some of the outputs that it changes.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace tenon::adapters {

class LycorisDropout {
 public:
  LycorisDropout() = default;
  // If `is_scaled`, the outputs that are kept are divided by their share.
  LycorisDropout(double module, double rank, bool is_scaled) : module_(module), rank_(rank), is_scaled_(is_scaled) {}

  // PEFT draws one number even if nothing can be dropped.
  void draw(int64_t outputs, const at::Generator& generator);
  bool is_skipped() const { return is_skipped_; }
  double skip_probability() const { return module_; }
  // Multiplies the elements of each output by its factor. `dim` is the dimension of the outputs.
  at::Tensor apply(const at::Tensor& values, int64_t dim) const;

 private:
  double module_ = 0, rank_ = 0;
  bool is_scaled_ = false, is_skipped_ = false;
  at::Tensor factors_;  // One per output; undefined if no output is dropped.
};

}  // namespace tenon::adapters
