// The graph language: a functional program over tensors, in SSA form, at the level of ATen's
// dispatcher. Pure data; print.h, parse.h and verify.h give it a text form and its rules.
//
// Every op is a function here. An operand that ATen would overwrite (`add_`, `copy_`, an `out=`
// tensor) is an immutable value like any other: the op works on a copy, and the copy is the
// result. An executor drops the copy when nobody reads the old contents again (planner/reuse.h).
// What a program leaves in tensors that it did not make is said by `write` lines at the end.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tenon::ir {

enum class DType : uint8_t {
#define TENON_DTYPE(name, text, torch_name, size) name,
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
};

const char* dtype_name(DType dtype);
bool dtype_from_name(const std::string& text, DType& out);
int64_t dtype_size(DType dtype);
bool is_floating(DType dtype);
bool is_integer(DType dtype);  // without bool
bool is_complex(DType dtype);

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

struct TensorType {
  DType dtype = DType::f32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;  // of the first element in its storage; what `aten::as_strided` counts from

  bool operator==(const TensorType&) const = default;
};

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes);
int64_t extent_of(const TensorType& type);  // elements of its storage, up to its last one

struct Value {
  TensorType type;
  ValueId alias_of = kNoValue;  // shares memory with this operand of the node that made it
  bool requires_grad = false;   // when it was recorded
};

// A floating-point number that may be another one at each run; the graph lists what it was when it
// was recorded.
struct Scalar {
  int32_t index = 0;
  bool operator==(const Scalar&) const = default;
};

// A number that C++ wrapped into a 0-d tensor (`x * 2.0`): it takes part in type promotion as a
// number, not as a tensor, unless `plain`.
struct NumberTensor {
  DType dtype = DType::f64;
  std::variant<int64_t, double, bool, std::complex<double>, Scalar> number;
  bool plain = false;

  bool operator==(const NumberTensor&) const = default;
};

// Things that have no text form of their own (generators); named by their place in a side table.
struct Resource {
  int32_t index = 0;
  bool operator==(const Resource&) const = default;
};

struct None {
  bool operator==(const None&) const = default;
};
struct Device {
  std::string name;
  bool operator==(const Device&) const = default;
};

using Attribute = std::variant<None, bool, int64_t, double, std::complex<double>, std::string, Device, Resource, Scalar,
                               std::vector<int64_t>, std::vector<double>, std::vector<bool>, std::vector<std::string>, NumberTensor>;

// One argument of an op: a value, a list of values (kNoValue stands for "no tensor"), or a constant.
struct ValueList {
  std::vector<ValueId> ids;
  bool operator==(const ValueList&) const = default;
};
using Argument = std::variant<ValueId, ValueList, Attribute>;

// One result: a tensor, a list of tensors, or (for an op that writes its operands) the operand's
// new contents. kNoValue: the op returned an undefined tensor there.
struct Result {
  bool is_list = false;
  std::vector<ValueId> ids;
  bool operator==(const Result&) const = default;
};

struct Node {
  std::string op;  // "aten::add.Tensor"
  std::vector<Argument> args;
  std::vector<Result> results;  // one per return of the schema
  // Operands that the op overwrites, in argument order, and the value that stands for the new
  // contents of each. Where the schema also returns that operand, the result is the same value.
  struct Write {
    int32_t argument = 0;
    int32_t item = 0;  // within a list
    ValueId before = kNoValue;
    ValueId after = kNoValue;
    bool operator==(const Write&) const = default;
  };
  std::vector<Write> writes;
  bool ordered = false;  // draws random numbers or has another effect: keeps its place and is never dropped
  bool no_grad = false;  // ran with grad mode off while the graph around it ran with it on
};

enum class InputRole : uint8_t { argument, state, gradient, tangent, saved };
const char* input_role_name(InputRole role);

struct Input {
  ValueId value = kNoValue;
  InputRole role = InputRole::argument;
  std::string name;
};

// After the graph has run, `input` holds `value`.
struct WriteBack {
  ValueId input = kNoValue;
  ValueId value = kNoValue;
};

struct Graph {
  std::string name = "graph";
  std::vector<Value> values;
  std::vector<Input> inputs;
  std::vector<double> scalars;  // as recorded
  std::vector<Node> nodes;
  std::vector<WriteBack> write_backs;
  std::vector<ValueId> outputs;
  // A joint graph: the first node of the backward, and what the forward alone writes back.
  size_t backward_start = SIZE_MAX;
  std::vector<WriteBack> forward_write_backs;

  ValueId add_value(TensorType type, ValueId alias_of = kNoValue, bool requires_grad = false) {
    values.push_back({std::move(type), alias_of, requires_grad});
    return static_cast<ValueId>(values.size() - 1);
  }
  bool is_joint() const { return backward_start != SIZE_MAX; }
};

inline constexpr int32_t kNoScalar = -1;

// The scalar that an argument is, or holds as a 0-d tensor.
inline int32_t scalar_in(const Argument& arg) {
  const auto* attribute = std::get_if<Attribute>(&arg);
  if (!attribute) return kNoScalar;
  if (const auto* scalar = std::get_if<Scalar>(attribute)) return scalar->index;
  const auto* number = std::get_if<NumberTensor>(attribute);
  const auto* inside = number ? std::get_if<Scalar>(&number->number) : nullptr;
  return inside ? inside->index : kNoScalar;
}

// Calls f(ValueId) for every value a node reads, in order; "no tensor" entries are skipped.
template <class F>
void for_each_operand(const Node& node, F&& f) {
  for (const Argument& arg : node.args) {
    if (const auto* id = std::get_if<ValueId>(&arg)) {
      if (*id != kNoValue) f(*id);
    } else if (const auto* list = std::get_if<ValueList>(&arg)) {
      for (ValueId item : list->ids)
        if (item != kNoValue) f(item);
    }
  }
}

// Calls f(ValueId) for every value a node defines, each once.
template <class F>
void for_each_definition(const Node& node, F&& f) {
  for (const Result& result : node.results)
    for (ValueId id : result.ids) {
      if (id == kNoValue) continue;
      bool is_write = false;
      for (const Node::Write& write : node.writes) is_write |= write.after == id;
      if (!is_write) f(id);
    }
  for (const Node::Write& write : node.writes) f(write.after);
}

}  // namespace tenon::ir
