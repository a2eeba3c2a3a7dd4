// How layers apply adapters. A call pins its rows once in a thread-local variable, where its layers find them.
#pragma once

#include <tenon/models.h>

namespace tenon::models {

// Pins rows for the layers of a bank's model on this thread until it is destroyed. Default rows (`is_given` is false) have no effect inside
// another scope of the same bank.
class PinScope {
 public:
  PinScope(const at::Tensor& rows, int64_t bank, bool is_given);
  ~PinScope();
  PinScope(const PinScope&) = delete;
  PinScope& operator=(const PinScope&) = delete;

 private:
  at::Tensor before_;
  int64_t bank_before_;
};

// Returns the input that a layer must use instead of x while no gradients are recorded; x itself if there is no bank.
at::Tensor transform_input(const AdapterSite& site, const at::Tensor& x);
// Returns the layer's result y with adapters applied; y itself if there is no bank. Norms and embeddings need only this, since they have no
// input transforms.
at::Tensor apply_to_output(const AdapterSite& site, const at::Tensor& x, at::Tensor y);
// Whether there is a bank and gradients are recorded. Then train_layer computes the whole layer.
bool records_gradients(const AdapterSite& site);
at::Tensor train_layer(const AdapterSite& site, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Computes a layer with the adapters of this call. `base` computes the layer without adapters; `bias` may be undefined.
template <class F>
at::Tensor through_bank(const AdapterSite& site, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, F&& base) {
  if (records_gradients(site)) return train_layer(site, x, weight, bias);
  return apply_to_output(site, x, base(transform_input(site, x)));
}

}  // namespace tenon::models
