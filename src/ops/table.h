// The op table: what capture and the passes must know about an op beyond its schema. The entries are in ops.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ops {

struct GraphBreak {
  std::string what;
  std::string instead;
};

struct HiddenWrite {
  int operand;
  int flag;
};

// The way in which the only result of a view op aliases its first operand.
enum class View : uint8_t {
  none,
  same,     // The same sizes and strides.
  reshape,  // Other sizes, the same elements in the same order.
  permute,  // The dimensions in another order.
  expand,   // Dimensions of size 1 are broadcast.
  slice,    // Some of the elements.
  strided,  // Arbitrary strides, independent of the operand's.
};

struct Fill {
  int argument;  // Index of the argument, or -1 if the value is `constant`.
  int constant;
};

struct Facts {
  std::optional<GraphBreak> breaks;
  bool uninitialized = false;
  bool may_throw = false;        // The op may throw on the contents of its operands.
  bool integers_throw = false;   // The op may throw only on integers.
  bool reads_grad_mode = false;  // The results depend on grad mode.
  bool draws_nothing = false;    // The op draws no random numbers, in spite of its tags.
  bool specializes = false;      // Floating-point arguments select the algorithm, so they stay constants of the graph.
  int overwrites = -1;           // Index of the operand that the op fills without reading it.
  std::vector<HiddenWrite> hidden_writes;
  bool infinity_varies = false;   // The result may be infinite or NaN, depending on the kernel that computes it.
  bool zero_sign_varies = false;  // The sign of a zero in the result depends on the kernel that computes it.
  bool has_out = false;           // The `.out` overload computes the same result into a given buffer.
  View view = View::none;
  std::optional<Fill> fill;
  std::string functional;           // The functional form of an in-place op.
  std::string tensor_form;          // The overload that takes a 0-d tensor where this one takes a scalar as its second argument.
  bool rounds_differently = false;  // The two forms above round bf16 and f16 differently.
};

View view_kind(const std::string& op);

// Facts of the op with this full name ("aten::add.Tensor"), or nullptr for an ordinary op.
const Facts* find(const std::string& op);
const std::unordered_map<std::string, Facts>& all();

// Returns the integer that ATen's arguments use for an element type (c10::ScalarType).
int64_t scalar_type_id(ir::DType dtype);

}  // namespace tenon::ops
