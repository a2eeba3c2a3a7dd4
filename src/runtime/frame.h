// What a run holds besides its inputs. It is kept for the next run, so that a tensor over memory which stays where it is
// is made once, and only if a library asks for one: kernels are given pointers.
#pragma once

#include <ATen/core/stack.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"
#include "runtime/lease.h"

namespace tenon::runtime {

class Frame {
 public:
  // Places of the arena are those of first elements.
  Frame(const ir::Graph& graph, const ir::Arena& arena);

  // A value with memory of its own, or one that somebody made a view of.
  void put(ir::ValueId id, at::Tensor tensor) { tensors_[id] = std::move(tensor); }
  // A value in the block, or in the memory of a result: from now on it is there.
  void* place(ir::ValueId id);
  // A value that is a view of another one, which it does not hold. False, and nothing is done: the other one does not lie as its
  // type says, since a library chose otherwise.
  bool put_view(ir::ValueId id);
  // A result: new memory, or that of an earlier run if nobody has it any more.
  const at::Tensor& result(ir::ValueId id);

  const void* data(ir::ValueId id) const { return tensors_[id].defined() ? tensors_[id].const_data_ptr() : memory_[id]; }
  const at::Tensor& tensor(ir::ValueId id) { return tensors_[id].defined() ? tensors_[id] : over_memory(id); }
  at::Tensor take(ir::ValueId id) { return tensors_[id].defined() ? std::move(tensors_[id]) : over_memory(id); }
  void drop(ir::ValueId id) { tensors_[id].reset(); }

  bool fits() const;  // this thread's mode
  void clear();       // holds nothing of the last run any more

  c10::ArrayRef<double> scalars;
  torch::jit::Stack stack;  // of the op that runs
  std::optional<Lease> block;
  std::vector<at::Tensor> hosts;  // results in whose memory values lie that die before

 private:
  const at::Tensor& over_memory(ir::ValueId id);

  const ir::Graph& graph_;
  const ir::Arena& arena_;
  bool is_inference_;
  std::vector<at::Tensor> tensors_;  // of this run
  std::vector<char*> memory_;        // of values without one: their first element
  std::vector<at::Tensor> made_;     // over such memory, in any run
};

// Nobody else has it, and nobody made something else of it.
bool is_free(const at::Tensor& tensor, const ir::TensorType& type);

}  // namespace tenon::runtime
