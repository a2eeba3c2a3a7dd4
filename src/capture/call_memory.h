// The buffers of one call, by storage id of the tape, while a range of its ops runs. Kernels get storages of our own over
// the caller's memory: accesses trigger no hooks, and the tape's offsets stay valid wherever the caller's tensors are.
#pragma once

#include <c10/core/Storage.h>

#include <vector>

#include "capture/tape.h"

namespace tenon::capture {

class CallMemory {
 public:
  // Uses existing memory. `owner` is the storage that it belongs to, or null. `shift` bytes are added to every offset of the tape.
  void borrow(int32_t storage, const void* begin, size_t bytes, int64_t shift, c10::StorageImpl* owner);
  // Sets the storage that an op returned.
  void set(int32_t storage, c10::Storage made);
  // Takes a storage that nobody else holds any more.
  void own(int32_t storage, c10::Storage only);
  // Drops the storages that were given to `own`: tensors that `tensor` has returned keep them alive.
  void release_owned();

  bool has(int32_t storage) const { return buffers_[storage].is_borrowed || buffers_[storage].made; }
  // Returns whether the tape's offsets differ from the caller's.
  bool is_shifted(int32_t storage) const { return buffers_[storage].is_shifted; }
  // The address of the tape's offset 0, and the storage that owns the memory, or null.
  std::pair<const char*, c10::StorageImpl*> address(int32_t storage) const;
  at::Tensor tensor(int32_t storage, const Geometry& geometry) const;
  // Returns memory that the caller's storage may own, of at least `bytes` bytes; copies if the buffer cannot be moved out.
  c10::DataPtr take(int32_t storage, size_t bytes);

  void resize(size_t storages) { buffers_.resize(storages); }
  void clear();

  std::vector<double> scalars;  // The free scalars of this call, with the tape's indices.

 private:
  struct CallBuffer {
    bool is_borrowed = false;
    const char* begin = nullptr;
    size_t bytes = 0;
    c10::StorageImpl* owner = nullptr;
    bool is_shifted = false;
    bool is_owned = false;  // Given to `own`.
    c10::Storage made;      // Made by an op, or on first use over borrowed memory.
    c10::Storage reusable;  // A borrowed storage of an earlier call, which is rebound instead of allocating a new one.
  };
  const c10::Storage& storage(int32_t id) const;

  mutable std::vector<CallBuffer> buffers_;
};

// Runs ops [begin, end) of a tape one by one, below autograd. Immediate ops are skipped, since they have run already.
void run_ops(const Tape& tape, size_t begin, size_t end, CallMemory& memory);

}  // namespace tenon::capture
