// Allocates all tensors of an adapter in one block. The last block that was released is kept for an adapter of the same size, because page
// faults on new memory cost more than filling it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace tenon::adapters {

class TensorArena {
 public:
  static size_t bytes_of(size_t tensor);  // Returns the number of bytes that a tensor of this many bytes occupies.
  explicit TensorArena(size_t bytes);     // `bytes` is the sum of bytes_of() over all tensors.
  // Returns an uninitialized dense f32 tensor with a storage of its own that keeps the block alive. Falls back to libtorch's allocator if
  // the block is full.
  at::Tensor empty(at::IntArrayRef sizes, at::IntArrayRef strides);

 private:
  struct Block;
  std::shared_ptr<Block> block_;
  size_t used_ = 0;
};

}  // namespace tenon::adapters
