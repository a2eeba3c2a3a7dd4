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

// The types of a graph's values for these values of its symbols. Values that neither a node nor the program uses have no type.
std::vector<ir::FixedType> types_of(const ir::Graph& graph, const ir::SymbolValues& symbols);

// What all runs of a graph with the same sizes have in common.
struct FrameLayout {
  // `keeps_memory`: the arena's block, and results that nobody holds any more, are reused in the next run.
  FrameLayout(const ir::Graph& graph, ir::SymbolValues symbols, ir::Arena arena, bool keeps_memory);

  const ir::Graph& graph;
  ir::SymbolValues symbols;
  std::vector<ir::FixedType> types;  // One per value.
  ir::Arena arena;                   // The locations are those of first elements.
  bool keeps_memory;
  std::vector<bool> is_output;  // One per value.
};

class RunFrame {
 public:
  explicit RunFrame(const FrameLayout& layout);

  // Sets a value to a tensor.
  void put(ir::ValueId id, at::Tensor tensor) { tensors_[id] = std::move(tensor); }
  // Sets a value to its address in the arena: in the block, or in the buffer of a host result.
  void* bind_arena(ir::ValueId id);
  // Sets a value to a view of its base, without a reference to it. Returns false, without effect, if a library call gave the base
  // other strides than its type has.
  bool put_view(ir::ValueId id);
  // The buffer for a value that is computed now: its part of the arena, or a tensor of its own.
  at::Tensor output(ir::ValueId id);
  bool is_in_arena(ir::ValueId id) const { return layout_.arena.locations[id].host != ir::Arena::kOwn; }

  const void* data(ir::ValueId id) const { return tensors_[id].defined() ? tensors_[id].const_data_ptr() : memory_[id]; }
  const ir::FixedType& type(ir::ValueId id) const { return layout_.types[id]; }
  const at::Tensor& tensor(ir::ValueId id) { return tensors_[id].defined() ? tensors_[id] : tensor_over_memory(id); }
  at::Tensor take(ir::ValueId id) {
    if (tensors_[id].defined()) return std::move(tensors_[id]);
    return tensor_over_memory(id);
  }
  void drop(ir::ValueId id) { tensors_[id].reset(); }

  bool fits() const;  // Returns whether it was made in this thread's inference mode.
  void begin();       // Allocates the arena.
  void clear();       // Drops all tensors of the last run.

  c10::ArrayRef<double> scalars;
  torch::jit::Stack stack;  // Arguments of the current op.

 private:
  const at::Tensor& tensor_over_memory(ir::ValueId id);
  at::Tensor allocate(ir::ValueId id);
  at::Tensor& host(size_t index);

  const FrameLayout& layout_;
  const ir::Graph& graph_;
  bool is_inference_;
  std::optional<BlockLease> block_;
  std::vector<at::Tensor> hosts_;    // Results whose buffers hold intermediate values before the results are written.
  std::vector<at::Tensor> tensors_;  // Tensors of this run.
  std::vector<char*> memory_;        // Addresses of the first elements of values without a tensor.
  std::vector<at::Tensor> cached_;   // Tensors over such addresses, and results, kept between runs.
};

// Whether nobody else holds the tensor or its storage, and its properties are still those of the type.
bool is_free(const at::Tensor& tensor, const ir::FixedType& type);

}  // namespace tenon::runtime
