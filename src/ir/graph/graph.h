// The graph language: a functional program over tensors, in SSA form, at the level of ATen's
// dispatcher. Pure data; print.h, parse.h and verify.h give it a text form and its rules.
//
// Every op is a function here. An operand that ATen would overwrite (`add_`, `copy_`, an `out=`
// tensor) is an immutable value like any other: the op works on a copy, and the copy is the
// result. An executor skips the copy when nobody reads the old contents again (planner/reuse.h).
// The `write` lines at the end list what the program writes into tensors that it did not create.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph/type.h"

namespace tenon::ir {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

struct Value {
  TensorType type;
  ValueId alias_of = kNoValue;  // Operand of the defining node that this value shares memory with.
  bool requires_grad = false;   // State at recording time.
};

// A floating-point scalar that may differ from run to run. The graph lists its recorded value.
struct Scalar {
  int32_t index = 0;
  bool operator==(const Scalar&) const = default;
};

// A wrapped number: a scalar that C++ put into a 0-d tensor (`x * 2.0`). It takes part in type
// promotion as a scalar, not as a tensor, unless it is `plain`.
struct ScalarTensor {
  DType dtype = DType::f64;
  std::variant<Size, double, bool, std::complex<double>, Scalar> number;
  bool plain = false;

  bool operator==(const ScalarTensor&) const = default;
};

// An object without a text form (a generator), named by its index in a side table.
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

using AttributeVariant = std::variant<None, bool, Size, double, std::complex<double>, std::string, Device, Resource, Scalar, SizeList,
                                      std::vector<double>, std::vector<bool>, std::vector<std::string>, ScalarTensor>;
struct Attribute : AttributeVariant {
  using AttributeVariant::AttributeVariant;
  Attribute(int64_t number) : AttributeVariant(Size(number)) {}
  Attribute(int number) : AttributeVariant(Size(number)) {}
  Attribute(const std::vector<int64_t>& numbers) : AttributeVariant(SizeList(numbers)) {}
};
// Returns whether both are equal for all values of the symbols. Adds no condition.
bool same(const Attribute& a, const Attribute& b);

// One argument of an op: a value, a list of values (kNoValue means "no tensor"), or a constant.
struct ValueList {
  std::vector<ValueId> ids;
  bool operator==(const ValueList&) const = default;
};
using Argument = std::variant<ValueId, ValueList, Attribute>;

// One result: a tensor, a list of tensors, or (for an op that writes its operands) the operand's
// new contents. kNoValue means that the op returned an undefined tensor.
struct Result {
  bool is_list = false;
  std::vector<ValueId> ids;
  bool operator==(const Result&) const = default;
};

struct Node {
  std::string op;  // "aten::add.Tensor"
  std::vector<Argument> args;
  std::vector<Result> results;  // One entry per return of the schema.
  // Operands that the op overwrites, in argument order, and the value that holds the new contents
  // of each. Where the schema also returns that operand, the result is the same value.
  struct Write {
    int32_t argument = 0;
    int32_t item = 0;  // Index within a list argument.
    ValueId before = kNoValue;
    ValueId after = kNoValue;
    bool operator==(const Write&) const = default;
  };
  std::vector<Write> writes;
  bool ordered = false;  // The op draws random numbers or has another effect: it is never moved or dropped.
  bool no_grad = false;  // The op ran with grad mode off inside a graph that ran with grad mode on.
};

enum class InputRole : uint8_t { argument, state, gradient, tangent, saved };
const char* input_role_name(InputRole role);

struct Input {
  ValueId value = kNoValue;
  InputRole role = InputRole::argument;
  std::string name;
};

// A write-back: `input` holds `value` after the graph has run.
struct WriteBack {
  ValueId input = kNoValue;
  ValueId value = kNoValue;
};

struct Graph {
  std::string name = "graph";
  std::vector<Value> values;
  std::vector<Input> inputs;
  SymbolValues symbols;               // Values at recording time.
  std::vector<double> scalars;        // Values at recording time.
  std::vector<Condition> conditions;  // The graph is valid for symbols with which all hold.
  std::vector<Node> nodes;
  std::vector<WriteBack> write_backs;
  std::vector<ValueId> outputs;
  // Index of the first backward node of a joint graph, and the write-backs of its forward.
  size_t backward_start = SIZE_MAX;
  std::vector<WriteBack> forward_write_backs;

  ValueId add_value(TensorType type, ValueId alias_of = kNoValue, bool requires_grad = false) {
    values.push_back({std::move(type), alias_of, requires_grad});
    return static_cast<ValueId>(values.size() - 1);
  }
  bool is_joint() const { return backward_start != SIZE_MAX; }
};

inline constexpr int32_t kNoScalar = -1;

// Returns the index of the scalar that an argument is or wraps, or kNoScalar.
inline int32_t scalar_in(const Argument& arg) {
  const auto* attribute = std::get_if<Attribute>(&arg);
  if (!attribute) return kNoScalar;
  if (const auto* scalar = std::get_if<Scalar>(attribute)) return scalar->index;
  const auto* tensor = std::get_if<ScalarTensor>(attribute);
  const auto* inside = tensor ? std::get_if<Scalar>(&tensor->number) : nullptr;
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
