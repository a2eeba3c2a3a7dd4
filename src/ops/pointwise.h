// Rows of pointwise.def: what an element of an op's result is, as an expression of its arguments.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tenon::ops {

struct Expression {
  enum class Kind : uint8_t { argument, number, function };
  Kind kind = Kind::number;
  int argument = 0;
  double number = 0;
  std::string function;  // of the loop language: "add", "select", ...
  std::vector<Expression> operands;
};

enum class Typing : uint8_t { value, operands, logic };

struct Pointwise {
  Typing typing = Typing::value;
  int conditioned = -1;   // the argument that the row depends on, or -1
  std::string condition;  // and what it must be
  Expression expression;
};

// The row of an op ("aten::add.Tensor") for arguments of which `attribute(i)` gives the text of
// number i if it is no tensor ("none", "tanh", "2"), or nullptr.
const Pointwise* find_pointwise(const std::string& op, const std::function<std::string(int)>& attribute);

// Throws InternalError; for rows, and for tests of them.
Expression parse_expression(const std::string& text);

}  // namespace tenon::ops
