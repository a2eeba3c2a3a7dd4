#include "adapters/room.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace tenon::adapters {

namespace {

constexpr size_t kLine = 64;

struct Memory {
  std::byte* data = nullptr;
  size_t size = 0;
};

struct Spare {
  std::mutex mutex;
  Memory memory;
};

Spare& spare() {
  static auto* only = new Spare;  // adapters may go after everything else has
  return *only;
}

}  // namespace

struct Room::Block {
  explicit Block(size_t bytes) {
    {
      std::lock_guard lock(spare().mutex);
      if (spare().memory.size == bytes) memory = std::exchange(spare().memory, {});
    }
    if (!memory.data) memory = {static_cast<std::byte*>(std::aligned_alloc(kLine, bytes)), bytes};
    if (!memory.data) throw std::bad_alloc();
  }
  ~Block() {
    {
      std::lock_guard lock(spare().mutex);
      std::swap(spare().memory, memory);
    }
    std::free(memory.data);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  Memory memory;
};

size_t Room::bytes_of(size_t tensor) { return (tensor + kLine - 1) / kLine * kLine; }

Room::Room(size_t bytes) {
  if (bytes > 0) block_ = std::make_shared<Block>(bytes);
}

at::Tensor Room::empty(at::IntArrayRef sizes, at::IntArrayRef strides) {
  size_t bytes = bytes_of(static_cast<size_t>(c10::multiply_integers(sizes)) * sizeof(float));
  if (!block_ || bytes == 0 || used_ + bytes > block_->memory.size) return at::empty_strided(sizes, strides, at::kFloat);
  std::byte* data = block_->memory.data + used_;
  used_ += bytes;
  return at::from_blob(
      data, sizes, strides, [block = block_](void*) {}, at::kFloat);
}

}  // namespace tenon::adapters
