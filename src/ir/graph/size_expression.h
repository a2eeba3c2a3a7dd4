// The expression of a symbolic size in canonical form: a sum of terms, each an integer times a product of symbols and quotients.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ir/graph/size.h"

namespace tenon::ir {

// a / positive, rounded down.
int64_t floor_quotient(int64_t a, int64_t positive);

struct SizeBounds {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();  // No bound: -kNone below, kNone above.
  int64_t low = -kNone, high = kNone;
};

struct SizeExpression {
  // A symbol, or `(expression)//divisor`.
  struct SizeFactor {
    int32_t symbol = -1;
    const SizeExpression* dividend = nullptr;  // Null for a symbol.
    int64_t divisor = 0;

    int64_t value(const SymbolValues& symbols) const;
    std::string text() const;
    SizeBounds bounds() const;
  };
  struct SizeTerm {
    int64_t coefficient = 1;
    std::vector<SizeFactor> factors;  // Sorted by text.

    std::string key() const;  // Text of the factors.
  };
  std::vector<SizeTerm> terms;  // Sorted by key; coefficients are not 0.
  int64_t constant = 0;

  static SizeExpression of(const Size& size);
  void add(const SizeExpression& other, int64_t factor);
  SizeExpression times(const SizeExpression& other) const;
  SizeExpression floor_divided(int64_t divisor) const;
  // Returns the size that is this expression.
  Size intern() &&;
  int64_t value(const SymbolValues& symbols) const;
  std::string text() const;
  int32_t symbols() const;
  SizeBounds bounds() const;
  int64_t lower_bound() const;  // -SizeBounds::kNone if there is none.
};

}  // namespace tenon::ir
