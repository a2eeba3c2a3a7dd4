#include "ir/graph/size_expression.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "base/process.h"

namespace tenon::ir {

int64_t floor_quotient(int64_t a, int64_t positive) { return a / positive - (a % positive < 0 ? 1 : 0); }

namespace {

// All expressions by their text. Programs use few different ones, so they are kept for the life of the process.
struct Interned {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<const SizeExpression>> by_text;
};
Interned& interned() {
  static auto* all = new Interned;
  return *all;
}
// Created when the library is loaded, because a fork in the middle of its creation would leave it locked in the child.
[[maybe_unused]] const Interned& g_interned = interned();

// a * b for bounds that are at least 0; without a bound if the product is too large.
int64_t product_of_bounds(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) || a == SizeBounds::kNone || b == SizeBounds::kNone ? SizeBounds::kNone : out;
}

SizeBounds bounds_of(const SizeExpression::SizeTerm& term) {
  SizeBounds product{1, 1};
  for (const SizeExpression::SizeFactor& factor : term.factors) {
    SizeBounds bounds = factor.bounds();
    if (bounds.low < 0) return {};
    product.low = product_of_bounds(product.low, bounds.low);
    product.high = bounds.high == 0 ? 0 : product_of_bounds(product.high, bounds.high);
  }
  int64_t scale = std::abs(term.coefficient);
  product = {product_of_bounds(product.low, scale), product_of_bounds(product.high, scale)};
  return term.coefficient > 0 ? product : SizeBounds{-product.high, -product.low};
}

// Lower bound of the factor by which `multiple` exceeds the negative term: for 3*s0*s1 and -2*s1 of 3*s0-2. Negative if there is none.
int64_t excess(const SizeExpression::SizeTerm& multiple, const SizeExpression::SizeTerm& negative) {
  SizeExpression::SizeTerm rest = multiple;
  for (const SizeExpression::SizeFactor& factor : negative.factors) {
    if (factor.bounds().low < 0) return -1;
    auto at = std::find_if(rest.factors.begin(), rest.factors.end(), [&](const auto& f) { return f.text() == factor.text(); });
    if (at == rest.factors.end()) return -1;
    rest.factors.erase(at);
  }
  int64_t low = bounds_of(rest).low;
  return low < 0 ? -1 : std::max<int64_t>(-1, low + negative.coefficient);
}

}  // namespace

int64_t SizeExpression::SizeFactor::value(const SymbolValues& symbols) const {
  if (dividend) return floor_quotient(dividend->value(symbols), divisor);
  if (static_cast<size_t>(symbol) >= symbols.size()) throw InternalError("no value for the symbol s" + std::to_string(symbol));
  return symbols[static_cast<size_t>(symbol)];
}

std::string SizeExpression::SizeFactor::text() const {
  if (!dividend) return "s" + std::to_string(symbol);
  bool is_symbol = dividend->constant == 0 && dividend->terms.size() == 1 && dividend->terms[0].coefficient == 1 &&
                   dividend->terms[0].factors.size() == 1 && !dividend->terms[0].factors[0].dividend;
  std::string inner = dividend->text();
  return "(" + (is_symbol ? inner : "(" + inner + ")") + "//" + std::to_string(divisor) + ")";
}

SizeBounds SizeExpression::SizeFactor::bounds() const {
  if (!dividend) return {kMinSymbol, SizeBounds::kNone};
  SizeBounds inner = dividend->bounds();
  return {inner.low == -SizeBounds::kNone ? inner.low : floor_quotient(inner.low, divisor),
          inner.high == SizeBounds::kNone ? inner.high : floor_quotient(inner.high, divisor)};
}

std::string SizeExpression::SizeTerm::key() const {
  std::string out;
  for (const SizeFactor& factor : factors) out += (out.empty() ? "" : "*") + factor.text();
  return out;
}

SizeExpression SizeExpression::of(const Size& size) {
  if (size.expression_) return *size.expression_;
  SizeExpression out;
  out.constant = size.number_;
  return out;
}

void SizeExpression::add(const SizeExpression& other, int64_t factor) {
  constant += factor * other.constant;
  for (const SizeTerm& term : other.terms) {
    std::string key = term.key();
    auto at = std::lower_bound(terms.begin(), terms.end(), key, [](const SizeTerm& t, const std::string& k) { return t.key() < k; });
    if (at == terms.end() || at->key() != key) terms.insert(at, {factor * term.coefficient, term.factors});
    else if (at->coefficient += factor * term.coefficient; at->coefficient == 0) terms.erase(at);
  }
}

Size SizeExpression::intern() && {
  if (terms.empty()) return constant;
  Interned& all = interned();
  std::string key = text();
  ForkSafeLock lock(all.mutex);
  auto& known = all.by_text[key];
  if (!known) known = std::make_unique<const SizeExpression>(std::move(*this));
  Size out;
  out.expression_ = known.get();
  return out;
}

int64_t SizeExpression::value(const SymbolValues& symbols) const {
  int64_t sum = constant;
  for (const SizeTerm& term : terms) {
    int64_t product = term.coefficient;
    for (const SizeFactor& factor : term.factors) product *= factor.value(symbols);
    sum += product;
  }
  return sum;
}

std::string SizeExpression::text() const {
  std::string out;
  for (const SizeTerm& term : terms) {
    if (term.coefficient < 0) out += "-";
    else if (!out.empty()) out += "+";
    if (int64_t scale = std::abs(term.coefficient); scale != 1) out += std::to_string(scale) + "*";
    out += term.key();
  }
  if (constant != 0) out += (constant > 0 ? "+" : "") + std::to_string(constant);
  return out;
}

int32_t SizeExpression::symbols() const {
  int32_t count = 0;
  for (const SizeTerm& term : terms)
    for (const SizeFactor& factor : term.factors) count = std::max(count, factor.dividend ? factor.dividend->symbols() : factor.symbol + 1);
  return count;
}

// A negative term whose factors are among those of a positive one is taken together with it: s0*s1-s1 = s1*(s0-1).
int64_t SizeExpression::lower_bound() const {
  std::vector<const SizeTerm*> positive;
  for (const SizeTerm& term : terms)
    if (term.coefficient > 0) positive.push_back(&term);
  int64_t sum = constant;
  auto add = [&](int64_t bound) {
    if (sum == -SizeBounds::kNone || bound == -SizeBounds::kNone || __builtin_add_overflow(sum, bound, &sum)) sum = -SizeBounds::kNone;
  };
  for (const SizeTerm& term : terms) {
    if (term.coefficient > 0) continue;
    auto multiple = std::find_if(positive.begin(), positive.end(), [&](const SizeTerm* other) { return excess(*other, term) >= 0; });
    if (multiple == positive.end()) {
      add(bounds_of(term).low);
      continue;
    }
    add(product_of_bounds(bounds_of({1, term.factors}).low, excess(**multiple, term)));
    positive.erase(multiple);
  }
  for (const SizeTerm* term : positive) add(bounds_of(*term).low);
  return sum;
}

SizeBounds SizeExpression::bounds() const {
  SizeExpression negated;
  negated.add(*this, -1);
  return {lower_bound(), -negated.lower_bound()};
}

SizeExpression SizeExpression::times(const SizeExpression& other) const {
  SizeExpression out;
  if (other.constant != 0) out.add(*this, other.constant);
  for (const SizeTerm& right : other.terms) {
    SizeExpression scaled;
    if (constant != 0) scaled.terms.push_back({constant * right.coefficient, right.factors});
    out.add(scaled, 1);
    for (const SizeTerm& left : terms) {
      SizeTerm term{left.coefficient * right.coefficient, left.factors};
      term.factors.insert(term.factors.end(), right.factors.begin(), right.factors.end());
      std::sort(term.factors.begin(), term.factors.end(), [](const auto& x, const auto& y) { return x.text() < y.text(); });
      SizeExpression one;
      one.terms.push_back(std::move(term));
      out.add(one, 1);
    }
  }
  return out;
}

// Multiples of the divisor are taken out of the quotient: (5*s0+3)//2 = 2*s0+1 + (s0+1)//2.
SizeExpression SizeExpression::floor_divided(int64_t divisor) const {
  SizeExpression whole, rest;
  for (const SizeTerm& term : terms) {
    int64_t quotient = floor_quotient(term.coefficient, divisor), remainder = term.coefficient - quotient * divisor;
    if (quotient != 0) whole.terms.push_back({quotient, term.factors});
    if (remainder != 0) rest.terms.push_back({remainder, term.factors});
  }
  whole.constant = floor_quotient(constant, divisor);
  rest.constant = constant - whole.constant * divisor;
  if (rest.terms.empty()) return whole;
  Size dividend = std::move(rest).intern();
  SizeExpression quotient;
  quotient.terms.push_back({1, {{-1, dividend.expression_, divisor}}});
  whole.add(quotient, 1);
  return whole;
}

}  // namespace tenon::ir
