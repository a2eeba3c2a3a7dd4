#include "adapters/tensor_arena.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace tenon::adapters {

namespace {

constexpr size_t kCacheLineBytes = 64;

struct Allocation {
  std::byte* data = nullptr;
  size_t size = 0;
};

struct SpareAllocation {
  std::mutex mutex;
  Allocation allocation;
};

SpareAllocation& spare() {
  static auto* only = new SpareAllocation;  // Never destroyed: adapters may be released after static destructors have run.
  return *only;
}

}  // namespace

struct TensorArena::Block {
  explicit Block(size_t bytes) {
    {
      std::lock_guard lock(spare().mutex);
      if (spare().allocation.size == bytes) allocation = std::exchange(spare().allocation, {});
    }
    if (!allocation.data) allocation = {static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, bytes)), bytes};
    if (!allocation.data) throw std::bad_alloc();
  }
  ~Block() {
    {
      std::lock_guard lock(spare().mutex);
      std::swap(spare().allocation, allocation);
    }
    std::free(allocation.data);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  Allocation allocation;
};

size_t TensorArena::bytes_of(size_t tensor) { return (tensor + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes; }

TensorArena::TensorArena(size_t bytes) {
  if (bytes > 0) block_ = std::make_shared<Block>(bytes);
}

at::Tensor TensorArena::empty(at::IntArrayRef sizes, at::IntArrayRef strides) {
  size_t bytes = bytes_of(static_cast<size_t>(c10::multiply_integers(sizes)) * sizeof(float));
  if (!block_ || bytes == 0 || used_ + bytes > block_->allocation.size) return at::empty_strided(sizes, strides, at::kFloat);
  std::byte* data = block_->allocation.data + used_;
  used_ += bytes;
  return at::from_blob(
      data, sizes, strides, [block = block_](void*) {}, at::kFloat);
}

}  // namespace tenon::adapters
