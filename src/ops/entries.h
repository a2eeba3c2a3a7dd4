// Entries of pointwise.def and reductions.def: each element of an op's results as an expression of the
// op's arguments.
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
    argument,   // An argument, or the only operand if the argument is None.
    constant,   // A literal.
    count,      // Number of elements that are reduced into one; in a pointwise entry, of all elements.
    function,   // A function of the loop language: "add", "select", ...
    reduction,  // A reduction of the loop language over the reduced dimensions: "sum", "max", ...
    indexed,    // An element of an argument whose index along one dimension is the first operand.
    position,   // Index of the element along a dimension.
  };
  // A dimension: a constant (negative ones count from the end) or the value of an argument.
  struct DimRef {
    int value = 0;
    bool is_argument = false;
    bool operator==(const DimRef&) const = default;
  };
  Kind kind = Kind::constant;
  int argument = 0;
  double constant = 0;
  std::string function;
  std::vector<Expression> operands;
  // The dimension that an argument's first one is aligned with, that is indexed, or whose position is meant.
  std::optional<DimRef> dim = {};
  // Argument whose value is allowed as an index out of range.
  int exempt = -1;
  bool rounds = false;  // An argument of another type is rounded to the type of the result first.
};

// Returns the default of an argument that may be None, or null.
const Expression* default_of(const Expression& e);

enum class Typing : uint8_t { value, operands, logic };

// The dimensions of an argument, usually the first, that an op reduces.
struct Reduced {
  // `listed`: an argument lists them. `last`: as many trailing ones as the argument has items. `before_last`: all others. `all_but`: one.
  enum class Kind : uint8_t { none, all, listed, last, before_last, all_but };
  Kind kind = Kind::none;
  int argument = 0;  // Index of that argument, or the dimension that is not reduced.
  int of = 0;        // Index of the argument that is reduced.
};

struct OpEntry {
  struct ArgumentCondition {
    int argument = 0;
    std::string text;
  };
  Typing typing = Typing::value;
  Reduced reduced;
  std::vector<ArgumentCondition> conditions;  // All conditions must hold.
  std::vector<Expression> results;            // Results, followed by the new contents of hidden writes.
  bool counts = false;                        // An expression uses `count`.
  bool has_positions = false;                 // An expression uses `position`.
  std::vector<Expression> strided_arguments;  // Arguments with `dim` or an index, which are not aligned with the last dimensions.
};

// Returns the entry of an op ("aten::add.Tensor"). `attribute(i)` returns the text of argument i if it is
// no tensor ("none", "tanh", "2"), "in order" for a contiguous tensor, otherwise "".
const OpEntry* find_entry(const std::string& op, const std::function<std::string(int)>& attribute);

bool has_entry(const std::string& op);  // Returns whether there is an entry for at least some arguments.

// All entries by op name.
const std::multimap<std::string, OpEntry>& all_entries();

// Parses the results of an entry. Throws InternalError.
std::vector<Expression> parse_results(const std::string& text);

}  // namespace tenon::ops
