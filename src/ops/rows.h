// Rows of pointwise.def and reductions.def: what an element of an op's results is, as expressions of
// its arguments.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon::ops {

struct Expression {
  enum class Kind : uint8_t {
    argument,   // or, if that is None, the only operand
    number,     //
    count,      // of the elements that are reduced into one; in a pointwise row, of all
    function,   // of the loop language: "add", "select", ...
    reduction,  // of the loop language, over the reduced dimensions: "sum", "max", ...
    indexed,    // an argument at a position of which one dimension is the only operand
    position,   // of the element, along a dimension
  };
  // Of a tensor: a number, from the end if it is negative, or what an argument says.
  struct Dim {
    int number = 0;
    bool is_argument = false;
    bool operator==(const Dim&) const = default;
  };
  Kind kind = Kind::number;
  int argument = 0;
  double number = 0;
  std::string function;
  std::vector<Expression> operands;
  std::optional<Dim> dim = {};  // argument: its first one is this; indexed: which is; position: along which
  int exempt = -1;              // indexed: an argument, with which the index may be out of range
};

// What an argument is if it is None, or null.
const Expression* default_of(const Expression& e);

enum class Typing : uint8_t { value, operands, logic };

// Which dimensions of an argument, mostly the first, an op reduces.
struct Reduced {
  // listed: by an argument; last: as many as the argument has items; before_last: all others; all_but: one
  enum class Kind : uint8_t { none, all, listed, last, before_last, all_but };
  Kind kind = Kind::none;
  int argument = 0;  // or the dimension
  int of = 0;        // the argument whose dimensions they are
};

struct Row {
  struct Condition {
    int argument = 0;
    std::string text;
  };
  Typing typing = Typing::value;
  Reduced reduced;
  std::vector<Condition> conditions;  // all of which must hold
  std::vector<Expression> results;    // then what is left in operands that are written without a word in the schema
  bool counts = false;                // some expression has `count`
  bool has_positions = false;         // or `position`
  std::vector<Expression> placed;     // arguments that do not simply lie at the last dimensions: with `dim`, or indexed
};

// The row of an op ("aten::add.Tensor") for arguments of which `attribute(i)` gives the text of
// number i if it is no tensor ("none", "tanh", "2"), else "in order" or nothing.
const Row* find_row(const std::string& op, const std::function<std::string(int)>& attribute);

bool has_row(const std::string& op);  // for some arguments

// All of them, with the names of their ops.
const std::multimap<std::string, Row>& all_rows();

// Throws InternalError; for rows, and for tests of them.
std::vector<Expression> parse_results(const std::string& text);

}  // namespace tenon::ops
