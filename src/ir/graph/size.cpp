#include "ir/graph/size.h"

#include <algorithm>

#include "base/error.h"
#include "ir/graph/size_expression.h"

namespace tenon::ir {
namespace {

thread_local ConditionScope* current_scope = nullptr;

}  // namespace

Size Size::symbol(int32_t index) {
  SizeExpression e;
  e.terms.push_back({1, {{index, nullptr, 0}}});
  return std::move(e).intern();
}

int64_t Size::number() const {
  if (expression_) throw InternalError("the size " + text() + " is used as a number");
  return number_;
}

int64_t Size::value(const SymbolValues& symbols) const { return expression_ ? expression_->value(symbols) : number_; }
std::string Size::text() const { return expression_ ? expression_->text() : std::to_string(number_); }
int32_t Size::symbols() const { return expression_ ? expression_->symbols() : 0; }

Size operator+(const Size& a, const Size& b) {
  if (a.is_number() && b.is_number()) return a.number_ + b.number_;
  SizeExpression sum = SizeExpression::of(a);
  sum.add(SizeExpression::of(b), 1);
  return std::move(sum).intern();
}

Size operator-(const Size& a, const Size& b) {
  if (a.is_number() && b.is_number()) return a.number_ - b.number_;
  SizeExpression difference = SizeExpression::of(a);
  difference.add(SizeExpression::of(b), -1);
  return std::move(difference).intern();
}

Size operator*(const Size& a, const Size& b) {
  if (a.is_number() && b.is_number()) return a.number_ * b.number_;
  return SizeExpression::of(a).times(SizeExpression::of(b)).intern();
}

Size floor_divide(const Size& a, int64_t divisor) {
  if (divisor < 1) throw InternalError("a size is divided by " + std::to_string(divisor));
  return SizeExpression::of(a).floor_divided(divisor).intern();
}

// Answers a comparison with the values of the scope: a < b if `is_order`, otherwise a == b.
bool ask(const Size& a, const Size& b, bool is_order) {
  ConditionScope* scope = current_scope;
  if (!scope) throw InternalError("sizes " + a.text() + " and " + b.text() + " are compared outside of a compilation");
  int64_t left = a.value(scope->values_), right = b.value(scope->values_);
  bool answer = is_order ? left < right : left == right;
  Relation relation = is_order ? (answer ? Relation::less : Relation::not_less) : (answer ? Relation::equal : Relation::different);
  bool is_known = std::any_of(scope->conditions_.begin(), scope->conditions_.end(),
                              [&](const Condition& c) { return c.relation == relation && same(c.left, a) && same(c.right, b); });
  if (!is_known) scope->conditions_.push_back({a, b, relation, scope->origin_});
  return answer;
}

bool operator==(const Size& a, const Size& b) {
  if (a.is_number() && b.is_number()) return a.number_ == b.number_;
  if (same(a, b)) return true;
  SizeBounds bounds = SizeExpression::of(a - b).bounds();
  if (bounds.low > 0 || bounds.high < 0) return false;
  return ask(a, b, /*is_order=*/false);
}

bool operator<(const Size& a, const Size& b) {
  if (a.is_number() && b.is_number()) return a.number_ < b.number_;
  SizeBounds bounds = SizeExpression::of(b - a).bounds();
  if (bounds.low > 0) return true;
  if (bounds.high <= 0) return false;
  return ask(a, b, /*is_order=*/true);
}

bool SizeList::are_numbers() const {
  return std::all_of(begin(), end(), [](const Size& size) { return size.is_number(); });
}

std::vector<int64_t> SizeList::numbers() const {
  std::vector<int64_t> out;
  out.reserve(size());
  for (const Size& item : *this) out.push_back(item.number());
  return out;
}

std::vector<int64_t> SizeList::values(const SymbolValues& symbols) const {
  std::vector<int64_t> out;
  out.reserve(size());
  for (const Size& item : *this) out.push_back(item.value(symbols));
  return out;
}

bool same(const SizeList& a, const SizeList& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Size& x, const Size& y) { return same(x, y); });
}

bool Condition::holds(const SymbolValues& symbols) const {
  int64_t a = left.value(symbols), b = right.value(symbols);
  switch (relation) {
    case Relation::equal:
      return a == b;
    case Relation::different:
      return a != b;
    case Relation::less:
      return a < b;
    case Relation::not_less:
      return a >= b;
  }
  return false;
}

std::string Condition::text() const {
  static constexpr const char* kSigns[] = {" == ", " != ", " < ", " >= "};
  return left.text() + kSigns[static_cast<size_t>(relation)] + right.text();
}

ConditionScope::ConditionScope(const SymbolValues& values, std::string origin, std::vector<Condition>& conditions)
    : values_(values), origin_(std::move(origin)), conditions_(conditions), outer_(current_scope) {
  current_scope = this;
}

ConditionScope::~ConditionScope() { current_scope = outer_; }

}  // namespace tenon::ir
