// OpMatcher: compares the ops of a running program with those of a tape. Operands match if they have the recorded storage and
// geometry; storages that appear for the first time are bound on the way. Free scalars are stored, not compared.
#pragma once

#include <vector>

#include "capture/backward.h"
#include "capture/listener.h"
#include "capture/storage_table.h"
#include "capture/tape.h"

namespace tenon::capture {

class OpMatcher {
 public:
  // Free scalars are written to `scalars`, with the tape's indices.
  OpMatcher(StorageTable& storages, std::vector<double>& scalars) : storages_(storages), scalars_(scalars) {}

  // The tape that the following ops are compared with. It must outlive its use.
  void set_tape(const Tape& tape) { tape_ = &tape; }

  // Both return whether this is the op of the entry, with matching arguments. If not, storages that were bound on the way
  // are unbound.
  bool matches(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack);
  // Compares op and memory; sizes, strides and integer constants may differ.
  bool matches_except_sizes(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack);
  // Index of the argument at which the last comparison of arguments ended.
  size_t mismatched_argument() const { return mismatched_argument_; }

  // Compares all arguments of a user call, including requires_grad; scalars must be equal. Unbinds as above.
  bool matches_call(const UserCall& call, const Stack& stack);
  // Compares the gradients of a backward, the leaves' gradients before it, and saved tensors. Unbinds as above.
  bool matches_backward_inputs(const Backward& backward, const std::vector<at::Tensor>& gradients, const BackwardGraph& graph);

 private:
  template <class Same>
  bool matches_arguments(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack, Same&& same);
  // `scalar` is the index for the op's next free scalar, or null if scalars must be equal.
  bool matches_argument(const TapeArgument& expected, const c10::IValue& given, size_t* scalar);
  bool matches_argument_except_sizes(const TapeArgument& expected, const c10::IValue& given, size_t* scalar);
  bool matches_tensor(const TensorRef& ref, const c10::TensorImpl* tensor);
  bool matches_tensor_except_sizes(const TensorRef& ref, const c10::TensorImpl* tensor);

  StorageTable& storages_;
  std::vector<double>& scalars_;
  const Tape* tape_ = nullptr;
  size_t mismatched_argument_ = 0;
};

}  // namespace tenon::capture
