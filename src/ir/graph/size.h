// Sizes that may be symbolic. A size, stride, offset or integer argument of a graph is a number, or an expression over the graph's
// symbols: `s0`, `2*s0*s1`, `4*(s0//2)+1`. A symbol is a size that differs from call to call, and is at least kMinSymbol: programs
// treat sizes 0 and 1 differently (no elements, broadcasting), so such calls get graphs of their own.
//
// Comparisons are decided by the expressions alone where possible. Otherwise the answer is the one for the sizes that were recorded,
// and becomes a condition of the graph that is being compiled (ConditionScope): the result serves all sizes for which it holds.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::ir {

inline constexpr int64_t kMinSymbol = 2;

// The values of a graph's symbols, by index.
using SymbolValues = std::vector<int64_t>;

struct SizeExpression;

class Size {
 public:
  Size() = default;
  template <std::integral T>
  Size(T number) : number_(static_cast<int64_t>(number)) {}
  static Size symbol(int32_t index);

  bool is_number() const { return !expression_; }
  int64_t number() const;  // Throws InternalError for an expression.
  int64_t value(const SymbolValues& symbols) const;
  std::string text() const;
  int32_t symbols() const;  // One more than the largest index of its symbols; 0 for a number.

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);
  friend Size floor_divide(const Size& a, int64_t positive);
  Size& operator+=(const Size& other) { return *this = *this + other; }
  Size& operator-=(const Size& other) { return *this = *this - other; }
  Size& operator*=(const Size& other) { return *this = *this * other; }

  // Returns whether both are the same expression, and so equal for all values of the symbols. Adds no condition.
  friend bool same(const Size& a, const Size& b) { return a.number_ == b.number_ && a.expression_ == b.expression_; }

  friend bool operator==(const Size& a, const Size& b);
  friend bool operator<(const Size& a, const Size& b);
  friend bool operator>(const Size& a, const Size& b) { return b < a; }
  friend bool operator<=(const Size& a, const Size& b) { return !(b < a); }
  friend bool operator>=(const Size& a, const Size& b) { return !(a < b); }

 private:
  friend struct SizeExpression;
  int64_t number_ = 0;                          // 0 for an expression.
  const SizeExpression* expression_ = nullptr;  // Equal expressions are one object, which is never freed.
};

struct SizeList : std::vector<Size> {
  using std::vector<Size>::vector;
  SizeList(const std::vector<int64_t>& numbers) : std::vector<Size>(numbers.begin(), numbers.end()) {}

  bool are_numbers() const;
  std::vector<int64_t> numbers() const;  // Throws InternalError if one is an expression.
  std::vector<int64_t> values(const SymbolValues& symbols) const;
};
bool same(const SizeList& a, const SizeList& b);

enum class Relation : uint8_t { equal, different, less, not_less };

// What must hold for a graph to serve a call, and the stage of compilation that asked for it.
struct Condition {
  Size left, right;
  Relation relation = Relation::equal;
  std::string origin;

  bool holds(const SymbolValues& symbols) const;
  std::string text() const;  // "s0 < 64"
};

// While it exists, comparisons of this thread that depend on symbols are answered with these values, and recorded.
class ConditionScope {
 public:
  ConditionScope(const SymbolValues& values, std::string origin, std::vector<Condition>& conditions);
  ~ConditionScope();
  ConditionScope(const ConditionScope&) = delete;
  ConditionScope& operator=(const ConditionScope&) = delete;

 private:
  friend bool ask(const Size& a, const Size& b, bool is_order);
  const SymbolValues& values_;
  std::string origin_;
  std::vector<Condition>& conditions_;
  ConditionScope* outer_;
};

}  // namespace tenon::ir
