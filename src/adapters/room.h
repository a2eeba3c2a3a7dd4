// Memory of an adapter's tensors: one block for all of them. The block of the adapter that went last is kept for one of the same size,
// since the pages of new memory cost more than what is written to them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace tenon::adapters {

class Room {
 public:
  static size_t bytes_of(size_t tensor);  // that a tensor of so many takes
  explicit Room(size_t bytes);            // of all tensors
  // f32, not filled, dense; of its own storage, which keeps the block. Where the block has no room left, libtorch's memory.
  at::Tensor empty(at::IntArrayRef sizes, at::IntArrayRef strides);

 private:
  struct Block;
  std::shared_ptr<Block> block_;
  size_t used_ = 0;
};

}  // namespace tenon::adapters
