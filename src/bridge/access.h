// Who may change a storage's contents. libtorch gives a storage one hook, which runs before somebody is
// handed a mutable pointer; this is the only place that sets it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <atomic>
#include <memory>

namespace tenon::bridge {

// Is told of every armed storage, on the thread that asks for a pointer, before it gets one.
void set_listener(void (*listener)(c10::StorageImpl*));

// Arms a storage for one access. False if it belongs to another mechanism of libtorch's (copy on write).
bool arm(c10::StorageImpl* storage);
// The same for a storage that no other thread knows yet.
void arm_new(c10::StorageImpl* storage);
// Somebody's mark keeps it armed.
void disarm(c10::StorageImpl* storage);

// The contents of a storage at a moment.
class Mark {
 public:
  bool is_current() const { return !changed_.load(std::memory_order_acquire); }

 private:
  friend void change(c10::StorageImpl* storage);
  std::atomic<bool> changed_{false};
};

// Current until somebody asks for a mutable pointer or `change` is called. Null if nobody would tell: the memory is not the
// storage's own. The storage must be held, weakly at least, for as long as the mark.
std::shared_ptr<const Mark> mark(c10::StorageImpl* storage);
// We wrote to its memory ourselves, past the hook.
void change(c10::StorageImpl* storage);

// A storage over memory of another one, and that other one.
c10::Storage lend(const void* begin, size_t bytes, c10::StorageImpl* owner);
// A lent storage, over other memory from now on.
void lend_again(const c10::Storage& storage, const void* begin, size_t bytes, c10::StorageImpl* owner);
c10::StorageImpl* owner_of(const at::Tensor& tensor);
// The tensor over a lent storage, for a library that asks for a mutable pointer only to read.
at::Tensor lent(const at::Tensor& tensor);

}  // namespace tenon::bridge
