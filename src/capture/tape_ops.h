// What a tape is written in: tensors named by storage and geometry, ops, and the larger things that
// stand for many ops.
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

using Dims = c10::SmallVector<int64_t, 5>;

struct Geometry {
  at::ScalarType dtype = at::kFloat;
  int64_t offset = 0;
  Dims sizes;
  Dims strides;

  std::vector<int64_t> sizes_vector() const { return {sizes.begin(), sizes.end()}; }
  std::vector<int64_t> strides_vector() const { return {strides.begin(), strides.end()}; }

  bool operator==(const Geometry& o) const { return dtype == o.dtype && offset == o.offset && sizes == o.sizes && strides == o.strides; }
};

Geometry geometry_of(const at::Tensor& tensor);

// A tensor on the tape.
struct TensorRef {
  int32_t storage = -1;  // -1: undefined
  Geometry geometry;
  bool requires_grad = false;
  // Which result of which op this object was, or -1. Two views of one memory that look alike are
  // the same contents, but autograd knows them apart.
  int32_t handle = -1;

  bool defined() const { return storage >= 0; }
  bool operator==(const TensorRef& o) const { return storage == o.storage && geometry == o.geometry && requires_grad == o.requires_grad; }
};

struct TensorListRef {
  std::vector<TensorRef> items;
  bool operator==(const TensorListRef&) const = default;
};

using TapeArgument = std::variant<TensorRef, TensorListRef, ir::ScalarTensor, c10::IValue>;

// The operand whose memory a result lies on.
struct Origin {
  int32_t argument = -1;  // -1: memory of its own
  int32_t item = 0;       // within a list
  bool same = false;      // the very object
  bool view = false;      // autograd knows it as a view of the operand (calls of the user only)
};

struct TapeResult {
  bool is_list = false;
  std::vector<TensorRef> items;
  c10::SmallVector<Origin, 1> origins;  // one per item
};

struct TapeWrite {
  TensorRef ref;
  int32_t argument = 0;
  int32_t item = 0;
};

// How long a tape's lists were at one moment.
struct TapeMark {
  size_t storages = 0;
  size_t externals = 0;
  size_t scalars = 0;
};

struct TapeOp {
  c10::OperatorHandle op;
  std::vector<TapeArgument> args;
  std::vector<TapeResult> results;
  c10::SmallVector<TapeWrite, 2> writes;  // operands that it overwrote
  bool ordered = false;                   // random, or no tensor result at all
  bool no_grad = false;
  bool in_backward = false;
  bool may_throw = false;   // on data, so that it is never dropped
  bool births = false;      // memory without contents
  int32_t overwrites = -1;  // the operand that it fills without reading it
  bool immediate = false;   // cannot wait: its results depend on contents, on a generator, or are memory for the host
  // Its floating-point numbers may differ from call to call: nothing but values depends on them.
  // Not so where there is no tensor operand (`arange(0.0, n)`).
  bool free_scalars = false;
  bool absolute_offset = false;               // as_strided: counts from the start of the storage
  bool takes_indices = false;                 // that it may refuse
  at::ScalarType default_dtype = at::kFloat;  // libtorch's, when it was called
  TapeMark before;
  uint64_t nodes = 0;  // autograd nodes that this thread had made since the run began
  ShapeRule shape_rule;
};

// Ops that come with one thing that the program does, and need nothing else from it.
struct Extent {
  size_t begin = 0, end = 0;
  size_t scalars_begin = 0, scalars_end = 0;
  std::vector<int32_t> touches;  // storages from before it that its ops work on
  std::vector<int32_t> writes;   // of these
};

// What an op does on its way down the dispatcher depends on this, beside its arguments.
struct Surroundings {
  uint64_t included = 0, excluded = 0;  // dispatch keys
  uint32_t flags = 0;
  at::ScalarType default_dtype = at::kFloat;
  bool operator==(const Surroundings&) const = default;
};

// An op as the user called it, above autograd and composites, with grad mode off.
struct UserCall {
  c10::OperatorHandle op;
  Surroundings around;
  std::vector<TapeArgument> args;
  std::vector<TapeResult> results;
  Extent extent;
  int32_t written = -1;  // the operand that it writes
  int64_t bumps = 0;     // of that operand's version
};

// A backward in which nothing was the user's own.
struct Backward {
  struct Leaf {
    TensorRef before, after;  // its gradient
    bool same = false;        // the same object, written
    int64_t bumps = 0;        // of the gradient's version
  };
  std::vector<uint64_t> signature;   // of the autograd graph
  std::vector<TensorRef> gradients;  // that it starts from
  std::vector<Leaf> leaves;
  std::vector<int32_t> scalars;  // that the autograd graph may have saved
  Extent extent;
};

// Equal bit by bit: two NaNs are the same constant, 0.0 and -0.0 are not.
bool same_constant(const c10::IValue& a, const c10::IValue& b);
bool same_number(const ir::ScalarTensor& a, const ir::ScalarTensor& b);

// In words, for messages.
std::string describe(const TapeArgument& argument);
std::string describe(const c10::IValue& value);

// The free scalar in an argument, if it holds one.
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

// The operands of arguments as objects, in the order of for_each_operand.
std::vector<const c10::TensorImpl*> operand_objects(const std::vector<TapeArgument>& args, const std::vector<c10::IValue>& stack,
                                                    size_t first);
// The operand on the result's memory; the operand itself if it is the same object.
Origin origin_of(const at::Tensor& result, const std::vector<TapeArgument>& args, const std::vector<const c10::TensorImpl*>& operands,
                 int32_t storage);

// The full name of an op: "aten::add.Tensor".
std::string op_name(const c10::OperatorHandle& op);

}  // namespace tenon::capture
