// The entries of a tape: tensors identified by storage and geometry, ops, and records of user calls and backward passes that
// comprise many ops.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "capture/shape_rule.h"
#include "ir/graph/graph.h"

namespace tenon::capture {

using DimList = c10::SmallVector<int64_t, 5>;

struct Geometry {
  at::ScalarType dtype = at::kFloat;
  int64_t offset = 0;
  DimList sizes;
  DimList strides;

  std::vector<int64_t> sizes_vector() const { return {sizes.begin(), sizes.end()}; }
  std::vector<int64_t> strides_vector() const { return {strides.begin(), strides.end()}; }

  bool operator==(const Geometry& o) const { return dtype == o.dtype && offset == o.offset && sizes == o.sizes && strides == o.strides; }
};

Geometry geometry_of(const at::Tensor& tensor);

// A tensor on the tape.
struct TensorRef {
  int32_t storage = -1;  // Storage id; -1 for an undefined tensor.
  Geometry geometry;
  bool requires_grad = false;
  // Identifies the op result that this tensor object is, or -1. Two views with the same geometry have the same contents,
  // but different autograd histories.
  int32_t handle = -1;

  bool defined() const { return storage >= 0; }
  bool operator==(const TensorRef& o) const { return storage == o.storage && geometry == o.geometry && requires_grad == o.requires_grad; }
};

struct TensorListRef {
  std::vector<TensorRef> items;
  bool operator==(const TensorListRef&) const = default;
};

using TapeArgument = std::variant<TensorRef, TensorListRef, ir::ScalarTensor, c10::IValue>;

// The operand that a result shares memory with.
struct Origin {
  int32_t argument = -1;  // -1 if the result has memory of its own.
  int32_t item = 0;       // Index within a list argument.
  bool same = false;      // The result is the operand object itself.
  bool view = false;      // Autograd treats it as a view of the operand (user calls only).
};

struct TapeResult {
  bool is_list = false;
  std::vector<TensorRef> items;
  c10::SmallVector<Origin, 1> origins;  // One per item.
};

struct TapeWrite {
  TensorRef ref;
  int32_t argument = 0;
  int32_t item = 0;
};

// A position on a tape: the lengths of its lists at one moment.
struct TapePosition {
  size_t storages = 0;
  size_t externals = 0;
  size_t scalars = 0;
};

struct TapeOp {
  c10::OperatorHandle op;
  std::vector<TapeArgument> args;
  std::vector<TapeResult> results;
  std::vector<TapeWrite> writes;  // The operands that it writes.
  bool ordered = false;           // The op draws random numbers or has no tensor result.
  bool no_grad = false;
  bool in_backward = false;
  bool may_throw = false;   // The op may throw depending on data, so it is never eliminated.
  bool allocates = false;   // The op returns uninitialized memory.
  int32_t overwrites = -1;  // The operand that it fills without reading it, or -1.
  bool immediate = false;   // The op cannot be deferred: its results depend on contents or a generator, or are memory for the host.
  // Its floating-point constants may differ from call to call, since only values depend on them. Ops without a tensor
  // operand (`arange(0.0, n)`) have no free scalars.
  bool free_scalars = false;
  bool absolute_offset = false;               // as_strided: the offset counts from the start of the storage.
  bool takes_indices = false;                 // The op takes indices that it may refuse.
  at::ScalarType default_dtype = at::kFloat;  // libtorch's default dtype at the call.
  TapePosition before;
  uint64_t nodes = 0;  // Number of autograd nodes that this thread had created since the run began.
  ShapeRule shape_rule;
};

// Ops [begin, end) that one action of the program implies, so that they can be deferred as a whole.
struct DeferrableRange {
  size_t begin = 0, end = 0;
  size_t scalars_begin = 0, scalars_end = 0;
  std::vector<int32_t> touches;  // Older storages that its ops use.
  std::vector<int32_t> writes;   // Older storages that its ops write.
};

// The thread state that, besides the arguments, determines how an op is dispatched.
struct DispatchState {
  uint64_t included = 0, excluded = 0;  // Raw dispatch key sets.
  uint32_t flags = 0;
  at::ScalarType default_dtype = at::kFloat;
  at::ScalarType autocast_dtype = at::kBFloat16;
  bool operator==(const DispatchState&) const = default;
};

// An op as the user called it, above autograd and decomposition, with grad mode off.
struct UserCall {
  c10::OperatorHandle op;
  DispatchState dispatch_state;
  std::vector<TapeArgument> args;
  std::vector<TapeResult> results;
  DeferrableRange range;
  int32_t written = -1;  // The operand that it writes, or -1.
  int64_t bumps = 0;     // Number of increments of that operand's version.
};

// A backward pass without user code.
struct Backward {
  struct Leaf {
    TensorRef before, after;          // The leaf's gradient.
    bool same = false;                // The gradient stays the same object and is written in place.
    bool may_change_metadata = true;  // libtorch allows the program to resize a new gradient.
    int64_t bumps = 0;                // Number of increments of the gradient's version.
  };
  DispatchState dispatch_state;
  std::vector<uint64_t> signature;   // Signature of the autograd graph.
  std::vector<TensorRef> gradients;  // The gradients of the roots.
  std::vector<TensorRef> saved;      // The tensors that the nodes have saved; undefined if no op reads them.
  std::vector<Leaf> leaves;
  std::vector<int32_t> scalars;  // The free scalars that the autograd graph may have saved.
  DeferrableRange range;
};

// Compare bit by bit: two NaNs are the same constant, 0.0 and -0.0 are not.
bool same_constant(const c10::IValue& a, const c10::IValue& b);
bool same_scalar_tensor(const ir::ScalarTensor& a, const ir::ScalarTensor& b);

// Text for messages.
std::string describe(const TapeArgument& argument);
std::string describe(const c10::IValue& value);

// The free scalar in an argument, or nullopt.
std::optional<double> free_scalar(const TapeOp& op, const TapeArgument& argument);

// Calls f for every tensor among arguments, undefined ones too.
template <class Args, class F>
void for_each_operand(Args& args, F&& f) {
  for (auto& arg : args) {
    if (auto* ref = std::get_if<TensorRef>(&arg)) f(*ref);
    else if (auto* list = std::get_if<TensorListRef>(&arg))
      for (auto& item : list->items) f(item);
  }
}

// Calls f for every tensor on an op: operands, results, writes.
template <class Op, class F>
void for_each_ref(Op& op, F&& f) {
  for_each_operand(op.args, f);
  for (auto& result : op.results)
    for (auto& item : result.items) f(item);
  for (auto& write : op.writes) f(write.ref);
}

// The tensor objects of the arguments, in the order of for_each_operand.
std::vector<const c10::TensorImpl*> operand_objects(const std::vector<TapeArgument>& args, const std::vector<c10::IValue>& stack,
                                                    size_t first);
// Finds the operand that the result shares memory with, preferring the operand that is the same object.
Origin origin_of(const at::Tensor& result, const std::vector<TapeArgument>& args, const std::vector<const c10::TensorImpl*>& operands,
                 int32_t storage);

// The full name of an op: "aten::add.Tensor".
std::string op_name(const c10::OperatorHandle& op);

}  // namespace tenon::capture
