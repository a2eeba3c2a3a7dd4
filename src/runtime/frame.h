// The values of one run. A frame is kept for the next run, so that a tensor over memory at a fixed address is made once, and only if
// a library call needs one: kernels take pointers.
#pragma once

#include <ATen/core/stack.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"
#include "runtime/lease.h"

namespace tenon::runtime {

class RunFrame {
 public:
  // The arena's offsets are those of first elements.
  RunFrame(const ir::Graph& graph, const ir::Arena& arena);

  // Sets a value to a tensor.
  void put(ir::ValueId id, at::Tensor tensor) { tensors_[id] = std::move(tensor); }
  // Sets a value to its address in the arena: in the block, or in the buffer of a host result.
  void* bind_arena(ir::ValueId id);
  // Sets a value to a view of its base, without a reference to it. Returns false, without effect, if a library call gave the base
  // other strides than its type has.
  bool put_view(ir::ValueId id);
  // The tensor for a result: that of an earlier run if nobody holds it any more, otherwise a new one.
  const at::Tensor& result(ir::ValueId id);

  const void* data(ir::ValueId id) const { return tensors_[id].defined() ? tensors_[id].const_data_ptr() : memory_[id]; }
  const at::Tensor& tensor(ir::ValueId id) { return tensors_[id].defined() ? tensors_[id] : tensor_over_memory(id); }
  at::Tensor take(ir::ValueId id) { return tensors_[id].defined() ? std::move(tensors_[id]) : tensor_over_memory(id); }
  void drop(ir::ValueId id) { tensors_[id].reset(); }

  bool fits() const;  // Whether it was made in this thread's inference mode.
  void clear();       // Drops all tensors of the last run.

  c10::ArrayRef<double> scalars;
  torch::jit::Stack stack;  // Arguments of the current op.
  std::optional<BlockLease> block;
  std::vector<at::Tensor> hosts;  // Results whose buffers hold intermediate values before the results are written.

 private:
  const at::Tensor& tensor_over_memory(ir::ValueId id);

  const ir::Graph& graph_;
  const ir::Arena& arena_;
  bool is_inference_;
  std::vector<at::Tensor> tensors_;  // Tensors of this run.
  std::vector<char*> memory_;        // Addresses of the first elements of values without a tensor.
  std::vector<at::Tensor> cached_;   // Tensors over such addresses, and results, kept between runs.
};

// Whether nobody else holds the tensor or its storage, and its properties are still those of the type.
bool is_free(const at::Tensor& tensor, const ir::TensorType& type);

}  // namespace tenon::runtime
