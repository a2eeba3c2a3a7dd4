// Access hooks of storages. libtorch gives a storage one hook, which runs before a mutable pointer is returned. Only this
// file sets it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <atomic>
#include <memory>

namespace tenon::bridge {

// Sets the function that is called before a mutable pointer to an armed storage is returned, on the requesting thread.
void set_listener(void (*listener)(c10::StorageImpl*));

// Arms a storage for one access. Returns false if libtorch uses the hook itself (copy on write).
bool arm(c10::StorageImpl* storage);
// Arms a storage that no other thread can access yet; takes no lock.
void arm_new(c10::StorageImpl* storage);
// Disarms a storage, unless a mark needs the hook.
void disarm(c10::StorageImpl* storage);

// A token that is valid until the contents of a storage change.
class Mark {
 public:
  bool is_current() const { return !changed_.load(std::memory_order_acquire); }

 private:
  friend void invalidate_marks(c10::StorageImpl* storage);
  std::atomic<bool> changed_{false};
};

// Returns a mark that is current until a mutable pointer is requested or `invalidate_marks` is called. Returns null if the
// storage does not own its memory, because changes would be unnoticed. The storage must be held, at least weakly, while the
// mark exists.
std::shared_ptr<const Mark> mark(c10::StorageImpl* storage);
// Invalidates the storage's mark after Tenon itself has written its memory without triggering the hook.
void invalidate_marks(c10::StorageImpl* storage);

// Makes a storage over memory that `owner` owns.
c10::Storage borrow_memory(const void* begin, size_t bytes, c10::StorageImpl* owner);
// Rebinds a borrowed storage to other memory.
void rebind_borrowed(const c10::Storage& storage, const void* begin, size_t bytes, c10::StorageImpl* owner);
// The storage that owns the tensor's memory.
c10::StorageImpl* owner_of(const at::Tensor& tensor);
// The same tensor over a borrowed storage, for libraries that request a mutable pointer although they only read.
at::Tensor borrowed(const at::Tensor& tensor);

}  // namespace tenon::bridge
