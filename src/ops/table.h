// The op table: what capture and the passes must know about an op beyond its schema. Rows live in ops.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ops {

struct Break {
  std::string what;
  std::string instead;
};

struct HiddenWrite {
  int operand;
  int flag;
};

// How the only result of an op looks at the memory of its first operand.
enum class View : uint8_t {
  none,
  same,     // as it is
  reshape,  // other sizes, the same elements in the same order
  permute,  // the dimensions in another order
  expand,   // dimensions of one element repeated
  part,     // some of the elements
  strided,  // any; whatever the operand looked like
};

struct Fill {
  int argument;  // or -1:
  int number;
};

struct Facts {
  std::optional<Break> breaks;
  bool birth = false;
  bool may_throw = false;        // on the contents of its operands
  bool integers_throw = false;   // and only they
  bool reads_grad_mode = false;  // what it returns depends on it
  bool draws_nothing = false;    // whatever its tags say of random numbers
  bool is_by_number = false;     // its floating-point numbers choose what is computed: they stay part of the program
  int overwrites = -1;           // the operand that it fills without reading it
  std::vector<HiddenWrite> hidden_writes;
  bool any_infinity = false;  // whether its result is infinite or NaN depends on where the operand's infinities lie
  bool any_zero = false;      // the sign of a zero in its result depends on the loop that computes it
  bool has_out = false;       // a twin named `.out` computes the same into memory that it is given
  View view = View::none;
  std::optional<Fill> fill;
  std::string functional;         // the op that does to a new tensor what this one does to its first operand
  std::string tensor_form;        // the op that takes a 0-d tensor where this one takes a number as its second argument
  bool rounds_otherwise = false;  // than these two, bf16 and f16
};

View view_kind(const std::string& op);

// Facts of the op with this full name ("aten::add.Tensor"), or nullptr for an ordinary op.
const Facts* find(const std::string& op);
const std::unordered_map<std::string, Facts>& all();

// What the number of an element type is in ATen's arguments.
int64_t dtype_number(ir::DType dtype);

}  // namespace tenon::ops
