// The memory of one call, by the storage numbers of its tape, while a stretch of the tape runs.
// Kernels work on storages of our own over the caller's memory, so that nothing they do is seen by
// hooks, and so that a tape's offsets hold wherever the caller's tensors lie today.
#pragma once

#include <c10/core/Storage.h>

#include <vector>

#include "capture/tape.h"

namespace tenon::capture {

class CallMemory {
 public:
  // Existing memory of a storage (null: of nobody); `moved` bytes are added to every offset of the tape.
  void lend(int32_t storage, const void* begin, size_t bytes, int64_t moved, c10::StorageImpl* owner);
  // What an op made.
  void put(int32_t storage, c10::Storage made);

  bool has(int32_t storage) const { return places_[storage].is_lent || places_[storage].made; }
  // Where the tape's offsets are not the caller's.
  bool is_moved(int32_t storage) const { return places_[storage].moved; }
  // Where its offset 0 lies, and in whose storage, if anybody's.
  std::pair<const char*, c10::StorageImpl*> place(int32_t storage) const;
  at::Tensor tensor(int32_t storage, const Geometry& geometry) const;
  // Its memory, in a form that the caller's storage may own; at least `bytes` long.
  c10::DataPtr take(int32_t storage, size_t bytes);

  void resize(size_t storages) { places_.resize(storages); }
  void clear();

  std::vector<double> scalars;  // of this call, numbered as on the tape

 private:
  struct Place {
    bool is_lent = false;
    const char* begin = nullptr;
    size_t bytes = 0;
    c10::StorageImpl* owner = nullptr;
    bool moved = false;
    c10::Storage made;   // by an op; of what is lent, once a tensor is asked for
    c10::Storage spare;  // that lent in an earlier call, and may lend again
  };
  const c10::Storage& storage(int32_t number) const;

  mutable std::vector<Place> places_;
};

// Runs ops [begin, end) of a tape one by one, below autograd. Ops that ran at once are left out.
void run_ops(const Tape& tape, size_t begin, size_t end, CallMemory& memory);

}  // namespace tenon::capture
