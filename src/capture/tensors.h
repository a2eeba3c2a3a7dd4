// Predicates on tensors, and iteration over the tensors of an IValue.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

namespace tenon::capture {

// Tensors with one of these keys are not plain strided CPU memory.
inline constexpr c10::DispatchKeySet kUnsupportedKeys({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                                                       c10::DispatchKey::ZeroTensor, c10::DispatchKey::Python, c10::DispatchKey::Sparse,
                                                       c10::DispatchKey::SparseCsr, c10::DispatchKey::Quantized,
                                                       c10::DispatchKey::MkldnnCPU});

inline c10::StorageImpl* storage_of(const c10::TensorImpl* tensor) { return tensor->unsafe_storage().unsafeGetStorageImpl(); }

// Replaces has_storage(), which would announce a read (capture/observed_tensor.h).
inline bool has_memory(const c10::TensorImpl* tensor) { return static_cast<bool>(tensor->unsafe_storage()); }

inline bool is_plain(const c10::TensorImpl* tensor) {
  c10::DispatchKeySet keys = tensor->key_set();
  return (keys & kUnsupportedKeys).empty() && keys.has_backend(c10::BackendComponent::CPUBit) && has_memory(tensor);
}

// Returns whether a level of forward-mode AD is active, so that tensors may carry tangents.
bool forward_mode_is_active();

// Returns whether the tensor carries a forward-mode tangent, or is a view of a tensor that does.
bool has_tangent(const at::Tensor& tensor);

// Calls f for every defined tensor in a value.
template <class F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& item : value.toListRef())
      if (item.isTensor() && item.toTensor().defined()) f(item.toTensor());
  }
}

}  // namespace tenon::capture
