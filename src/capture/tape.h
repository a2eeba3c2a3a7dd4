// The tape: what one run of a program did, as the listeners saw it. Operands are named by storage
// and geometry, never by TensorImpl, and storages are held weakly, so that recording does not
// change what the program does (reference counts steer autograd between `add` and `add_`).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

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

using TapeArgument = std::variant<TensorRef, TensorListRef, ir::NumberTensor, c10::IValue>;

// The operand whose memory a result lies on.
struct Origin {
  int32_t argument = -1;  // -1: memory of its own
  int32_t item = 0;       // within a list
  bool same = false;      // the very object
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
  mutable int8_t shape_rule = 0;  // 1: what it returns is known without running it, 2: not; 0: not asked yet
};

struct TapeStorage {
  c10::weak_intrusive_ptr<c10::StorageImpl> weak;
  int32_t born = -1;  // index of the op that made it; -1: it was there before (external)
  size_t bytes = 0;
  // Bytes from where the tape says that its tensors lie to where they lie in the run that is being
  // recorded: streams that part keep one way of counting.
  int64_t moved = 0;
};

// A tensor that the program met but did not make.
struct External {
  enum class Kind : uint8_t { argument, state, gradient, tangent, met };
  Kind kind = Kind::met;
  int32_t index = 0;  // argument or tangent number; for a gradient the external whose .grad it is
  std::string name;
  TensorRef ref;
  c10::weak_intrusive_ptr<c10::TensorImpl> weak;
  c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage;
  int64_t version = 0;                     // when it was first met
  std::optional<ir::NumberTensor> number;  // a 0-d tensor's contents when it was first met

  // The program let go of it before it ended.
  bool gone() const { return kind == Kind::met && weak_storage.expired(); }
  // A number that ATen put into a tensor on its own.
  bool is_number() const { return number && gone(); }
};

struct BreakEvent {
  std::string op;
  std::string what;
  std::string instead;
  size_t before_op = 0;  // index into Tape::ops
  std::vector<void*> frames;
};

struct Tape {
  std::vector<TapeOp> ops;
  std::vector<TapeStorage> storages;
  std::vector<External> externals;
  std::vector<BreakEvent> breaks;
  std::vector<double> scalars;         // the free ones, in the order of the ops' arguments
  std::vector<std::string> obstacles;  // reasons why the tape cannot stand for the program
  int32_t handles = 0;                 // how many were given out
  size_t calls = 0;                    // ops as the user made them (outer listener)
  bool has_backward = false;           // autograd ran inside
  // Autograd nodes that ran inside, and whether their saved tensors were kept.
  std::unordered_map<const void*, bool> nodes_run;
};

// Equal bit by bit: two NaNs are the same constant, 0.0 and -0.0 are not.
bool same_constant(const c10::IValue& a, const c10::IValue& b);
bool same_number(const ir::NumberTensor& a, const ir::NumberTensor& b);

// In words, for messages.
std::string describe(const TapeArgument& argument);
std::string describe(const c10::IValue& value);

// The free scalar in an argument, if it holds one.
std::optional<double> free_scalar(const TapeOp& op, const TapeArgument& argument);

// Calls f for every tensor on an op: operands, results, writes.
template <class Op, class F>
void for_each_ref(Op& op, F&& f) {
  for (auto& arg : op.args) {
    if (auto* ref = std::get_if<TensorRef>(&arg)) f(*ref);
    else if (auto* list = std::get_if<TensorListRef>(&arg))
      for (auto& item : list->items) f(item);
  }
  for (auto& result : op.results)
    for (auto& item : result.items) f(item);
  for (auto& write : op.writes) f(write.ref);
}

// The full name of an op: "aten::add.Tensor".
std::string op_name(const c10::OperatorHandle& op);

// How much of a tape belongs to the forward.
struct TapeExtent {
  size_t ops = 0;
  size_t externals = 0;
};

// Empty if both tapes tell the same program, else the first difference in words.
std::string first_difference(const Tape& a, TapeExtent a_extent, const Tape& b, TapeExtent b_extent);

}  // namespace tenon::capture
