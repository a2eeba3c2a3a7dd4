#include "capture/observed_tensor.h"

#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "capture/address_space.h"
#include "capture/pending.h"

namespace tenon::capture {
namespace {

thread_local bool t_library_code = false;

static_assert(sizeof(ObservedTensor) == sizeof(c10::TensorImpl));

using VirtualTable = const void*;
struct __attribute__((may_alias)) Polymorphic {
  VirtualTable table;
};

template <class T>
VirtualTable table_of() {
  auto sample = c10::make_intrusive<T>(c10::DispatchKeySet(c10::DispatchKey::CPU), caffe2::TypeMeta::Make<float>(), c10::Device(c10::kCPU));
  return reinterpret_cast<const Polymorphic*>(sample.get())->table;
}

}  // namespace

// A storage that no replay uses has no hook and no reserved address; the check then costs a few comparisons.
void ObservedTensor::announce() const {
  if (!storage_ || t_library_code) return;
  c10::StorageImpl* storage = storage_.unsafeGetStorageImpl();
  if (storage->has_materializer() || is_reserved(storage->data())) announce_access(storage, AccessKind::read);
}

LibraryCode::LibraryCode(bool on) : before_(t_library_code) { t_library_code = on; }
LibraryCode::~LibraryCode() { t_library_code = before_; }

bool ObservedTensor::has_storage() const {
  announce();
  return static_cast<bool>(storage_);
}

const c10::Storage& ObservedTensor::storage() const {
  announce();
  return c10::TensorImpl::storage();
}

c10::intrusive_ptr<c10::TensorImpl> ObservedTensor::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                            bool allow_metadata_change) const {
  bool python = key_set_.has(c10::DispatchKey::Python) || c10::impl::TorchDispatchModeTLS::stack_len() > 0;
  if (python) return c10::TensorImpl::shallow_copy_and_detach(version, allow_metadata_change);
  auto copy = c10::make_intrusive<ObservedTensor>(key_set_, data_type_, device_opt_);
  copy_tensor_metadata(this, copy.get(), version, allow_metadata_change);
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> ObservedTensor::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                            bool allow_metadata_change) const {
  return shallow_copy_and_detach(static_cast<const c10::VariableVersion&>(version), allow_metadata_change);
}

void observe(c10::TensorImpl* tensor) {
  static const VirtualTable plain = table_of<c10::TensorImpl>(), observed = table_of<ObservedTensor>();
  auto* object = reinterpret_cast<Polymorphic*>(tensor);
  // Other threads may call virtual functions meanwhile; each sees the old table or the new one.
  if (object->table == plain) __atomic_store_n(&object->table, observed, __ATOMIC_RELAXED);
}

}  // namespace tenon::capture
