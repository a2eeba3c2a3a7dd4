#include "support/random_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::test {

using namespace ir::loop;
using ir::DType;
using Kind = Reduction::Kind;

namespace {

constexpr DType kReals[] = {DType::f32, DType::f32, DType::f64};
constexpr DType kIntegers[] = {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8};
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Distance from 1 to the next larger value.
double epsilon(DType type) {
  return type == DType::f64 ? 0x1p-52 : type == DType::f32 ? 0x1p-23 : type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : 0;
}

// Error bound of a rounded result: zero if both implementations round the same value.
double with_rounding(double error, double limit, DType type) { return error > 0 ? error + epsilon(type) * limit : 0; }

// Domain in which a unary op is smooth: x is clamped, then replaced by |x| + shift if shift >= 0. There the op's result and slope
// are bounded by these values.
struct Smooth {
  Op op;
  double clamp, shift, limit, slope;
};
constexpr Smooth kSmooth[] = {
    {Op::exp, 4, -1, 55, 55},     {Op::exp2, 4, -1, 16, 12},     {Op::expm1, 4, -1, 55, 55},     {Op::log, 100, 1, 5, 1},
    {Op::log2, 100, 1, 7, 1.5},   {Op::log10, 100, 1, 2.1, 0.5}, {Op::log1p, 100, 0, 4.7, 1},    {Op::sin, 8, -1, 1, 1},
    {Op::cos, 8, -1, 1, 1},       {Op::tan, 1, -1, 1.6, 3.5},    {Op::asin, 0.9, -1, 1.2, 2.4},  {Op::acos, 0.9, -1, 3.2, 2.4},
    {Op::atan, 100, -1, 1.6, 1},  {Op::sinh, 4, -1, 28, 28},     {Op::cosh, 4, -1, 28, 28},      {Op::tanh, 100, -1, 1, 1},
    {Op::asinh, 100, -1, 5.4, 1}, {Op::acosh, 100, 2, 5.4, 0.6}, {Op::atanh, 0.9, -1, 1.5, 5.3}, {Op::erf, 100, -1, 1, 1.2},
    {Op::erfc, 100, -1, 2, 1.2},  {Op::lgamma, 8, 1, 10.7, 2.2},
};

constexpr Op kPlainReal[] = {Op::add,   Op::sub,  Op::mul,   Op::div,   Op::neg,      Op::abs,  Op::max, Op::min,
                             Op::floor, Op::ceil, Op::trunc, Op::round, Op::copysign, Op::fmod, Op::sqrt};
constexpr Op kInteger[] = {Op::add, Op::sub,     Op::mul,    Op::neg,     Op::abs,    Op::max,
                           Op::min, Op::bit_and, Op::bit_or, Op::bit_xor, Op::bit_not};
constexpr Op kBoolean[] = {Op::bit_and, Op::bit_or, Op::bit_xor, Op::bit_not};
constexpr Op kCompare[] = {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge};

}  // namespace

void RandomValues::open(std::vector<Statement>& block) { scopes_.push_back({&block, {}}); }

void RandomValues::close() { scopes_.pop_back(); }

Item RandomValues::keep(Item item) {
  // Values with a large error would make the error of later values too large.
  if (item.error <= 0.05 * std::max(item.limit, 1.0)) scopes_.back().items.push_back(item);
  return item;
}

Item RandomValues::choose(const std::vector<Item>& items) {
  std::vector<Item> unused;
  used_.resize(kernel_.registers);
  for (const Item& item : items)
    if (!used_[item.reg]) unused.push_back(item);
  return !unused.empty() && dice_.chance(0.7) ? dice_.pick_late(unused) : dice_.pick_late(items);
}

Item RandomValues::any() {
  std::vector<Item> found;
  for (const Scope& scope : scopes_) found.insert(found.end(), scope.items.begin(), scope.items.end());
  return found.empty() ? constant(DType::f32) : choose(found);
}

Item RandomValues::of(DType type) {
  std::vector<Item> found;
  for (const Scope& scope : scopes_)
    for (const Item& item : scope.items)
      if (item.type == type) found.push_back(item);
  if (!found.empty() && dice_.chance(0.9)) return choose(found);
  if (is_half(type) || dice_.chance(0.7)) return cast(any(), type);
  return constant(type);
}

// Avoids ops whose operands are the same value.
Item RandomValues::other(DType type, const Item& than) {
  Item item = of(type);
  for (int attempt = 0; attempt < 3 && item.reg == than.reg; ++attempt) item = of(type);
  return item;
}

Item RandomValues::exact(DType type) {
  for (int attempt = 0; attempt < 4; ++attempt)
    if (Item item = of(type); item.error == 0) return item;
  return constant(type);
}

Item RandomValues::constant(DType type, double number) {
  Constant c{new_register(), type, 0.0};
  if (is_real(type)) c.value = number;
  else c.value = static_cast<int64_t>(number);
  add({c});
  return {c.result, type, std::fabs(number), 0, true};
}

Item RandomValues::constant(DType type) {
  if (is_half(type)) return cast(constant(DType::f32), type);
  if (type == DType::boolean) return constant(type, static_cast<double>(dice_.below(2)));
  if (is_integer(type)) return constant(type, static_cast<double>(dice_.below(100) - (type == DType::u8 ? 0 : 50)));
  static constexpr double kSpecialValues[] = {0.0, -0.0, 1, -1, 0.5, 3e38, 1e-40, INFINITY, -INFINITY, NAN};
  if (is_exact_ && dice_.chance(0.3)) return constant(type, dice_.pick(kSpecialValues));
  return constant(type, dice_.unit() * 4 - 2);
}

Item RandomValues::index(int32_t loop) {
  LoopIndex statement{new_register(), loop};
  add({statement});
  return {statement.result, DType::i64, 100, 0};
}

Item RandomValues::compute(Op op, DType type, const std::vector<Item>& operands, double limit, double error) {
  Compute statement{new_register(), op, type, {}};
  for (const Item& operand : operands) {
    statement.operands.push_back(operand.reg);
    use(operand);
  }
  add({statement});
  DType result = op_kind(op) == OpKind::compare ? DType::boolean : type;
  return {statement.result, result, result == DType::boolean ? 1 : limit, error};
}

Item RandomValues::clamped(Item item, double bound) {
  if (is_exact_ || item.limit <= bound) return item;
  Item high = compute(Op::max, item.type, {item, constant(item.type, -bound)}, item.limit, item.error);
  return compute(Op::min, item.type, {high, constant(item.type, bound)}, bound, item.error);
}

// Returns a real that fits every integer type after truncation; 0 for a NaN.
Item RandomValues::guarded(Item item, bool is_signed) {
  Item size = compute(Op::abs, item.type, {item}, item.limit);
  Item is_small = compute(Op::lt, item.type, {size, constant(item.type, 100)});
  return compute(Op::select, item.type, {is_small, is_signed ? item : size, constant(item.type, 0)}, 100);
}

Item RandomValues::cast(Item item, DType to) {
  bool from_integer = is_integer(item.type) || item.type == DType::boolean;
  bool to_floating = is_real(to) || is_half(to);
  if (!to_floating && item.error != 0) item = exact(DType::f32);
  if (from_integer && !to_floating) return compute(Op::cast, to, {item}, to == DType::boolean ? 1 : kUnbounded);
  if (from_integer) {
    if (!is_exact_ && item.limit > 1000) item = compute(Op::bit_and, item.type, {item, constant(item.type, 63)}, 63);
    return compute(Op::cast, to, {item}, item.limit);
  }
  if (to == DType::boolean) return compute(Op::cast, to, {item}, 1);
  if (is_integer(to)) {
    if (is_half(item.type)) item = compute(Op::cast, DType::f32, {item}, item.limit);
    return compute(Op::cast, to, {guarded(item, to != DType::u8)}, 100);
  }
  // Near a tie the two results may differ by one ulp of the narrower type: keeps the ulp small.
  if (is_half(to) && is_real(item.type)) item = clamped(item, item.error > 0 ? 4 : 1000);
  return compute(Op::cast, to, {item}, item.limit, with_rounding(item.error, item.limit, to));
}

// Returns |item| + shift, which avoids steep regions of ops.
Item RandomValues::shifted(Item item, double shift) {
  Item size = compute(Op::abs, item.type, {item}, item.limit, item.error);
  double limit = item.limit + shift;
  return compute(Op::add, item.type, {size, constant(item.type, shift)}, limit, with_rounding(item.error, limit, item.type));
}

Item RandomValues::plain_real_op(Op op, DType type) {
  bool is_step = op == Op::floor || op == Op::ceil || op == Op::trunc || op == Op::round || op == Op::fmod;
  Item a = clamped(is_step ? exact(type) : of(type), 1000);
  if (op_arity(op) == 1) {
    if (op == Op::sqrt && (!is_exact_ || dice_.chance(0.7))) a = shifted(a, 1);
    double limit = is_step ? a.limit + 1 : a.limit;
    return compute(op, type, {a}, limit, with_rounding(a.error, limit, type));
  }
  Item b = clamped(is_step ? exact(type) : other(type, a), 1000);
  for (int attempt = 0; op == Op::copysign && !b.is_loaded; ++attempt) b = attempt < 4 ? exact(type) : constant(type);
  if (op == Op::div && !is_exact_) b = shifted(b, 1);
  double limit = op == Op::add || op == Op::sub ? a.limit + b.limit : op == Op::mul ? a.limit * b.limit : std::max(a.limit, b.limit);
  double error = op == Op::mul   ? a.limit * b.error + b.limit * a.error + a.error * b.error
                 : op == Op::div ? a.error + a.limit * b.error
                                 : a.error + b.error;
  Item result = compute(op, type, {a, b}, limit, with_rounding(error, limit, type));
  // The sign of a zero result is unspecified: adding 0 makes it unique.
  if (is_exact_ && (op == Op::max || op == Op::min)) return compute(Op::add, type, {result, constant(type, 0)});
  return result;
}

Item RandomValues::smooth_op(DType type) {
  size_t count = std::size(kSmooth);
  size_t which = static_cast<size_t>(dice_.below(static_cast<int64_t>(count) + 3));
  auto near = [&](double limit, double error) { return error + 3 * epsilon(type) * limit; };
  if (which < count) {
    const Smooth& s = kSmooth[which];
    Item a = clamped(of(type), s.clamp);
    if (s.shift >= 0) a = shifted(a, s.shift);
    return compute(s.op, type, {a}, s.limit, near(s.limit, s.slope * a.error));
  }
  if (which == count) {
    Item a = clamped(of(type), 30), b = clamped(of(type), 30), c = clamped(of(type), 1000);
    double limit = a.limit * b.limit + c.limit;
    return compute(Op::fma, type, {a, b, c}, limit, near(limit, a.limit * b.error + b.limit * a.error + a.error * b.error + c.error));
  }
  if (which == count + 1) {
    Item y = clamped(of(type), 100), x = shifted(clamped(of(type), 100), 1);
    return compute(Op::atan2, type, {y, x}, 1.6, near(1.6, x.error + y.error));
  }
  Item base = shifted(clamped(of(type), 8), 1), power = clamped(of(type), 3);
  return compute(Op::pow, type, {base, power}, 729, near(729, 243 * base.error + 1602 * power.error));
}

Item RandomValues::real_op(DType type) {
  if (!is_exact_ && dice_.chance(0.5)) return smooth_op(type);
  return plain_real_op(dice_.pick(kPlainReal), type);
}

Item RandomValues::integer_op(DType type) {
  Op op = dice_.pick(kInteger);
  std::vector<Item> operands = {of(type)};
  if (op_arity(op) == 2) operands.push_back(other(type, operands[0]));
  return compute(op, type, operands, kUnbounded);
}

Item RandomValues::boolean() {
  if (dice_.chance(0.4)) {
    Op op = dice_.pick(kBoolean);
    std::vector<Item> operands = {of(DType::boolean)};
    if (op_arity(op) == 2) operands.push_back(other(DType::boolean, operands[0]));
    return compute(op, DType::boolean, operands, 1);
  }
  DType type = dice_.chance(0.5) ? dice_.pick(kReals) : dice_.chance(0.1) ? DType::boolean : dice_.pick(kIntegers);
  Item a = exact(type);
  return compute(dice_.pick(kCompare), type, {a, exact(type)});
}

Item RandomValues::select(DType type) {
  Item which = of(DType::boolean), a = of(type), b = other(type, a);
  return compute(Op::select, type, {which, a, b}, std::max(a.limit, b.limit), std::max(a.error, b.error));
}

Item RandomValues::something() { return keep(new_value()); }

Item RandomValues::new_value() {
  if (!is_exact_ && dice_.chance(0.5)) return real_op(dice_.pick(kReals));
  switch (dice_.below(12)) {
    case 0:
    case 1:
      return integer_op(dice_.pick(kIntegers));
    case 2:
    case 3:
      return boolean();
    case 4:
      return select(dice_.chance(0.5) ? dice_.pick(kReals) : dice_.chance(0.1) ? DType::boolean : dice_.pick(kIntegers));
    case 5:
      return cast(any(), dice_.chance(0.5) ? dice_.pick(kReals) : dice_.pick(kIntegers));
    case 6:
      return cast(any(), dice_.chance(0.4) ? DType::bf16 : dice_.chance(0.6) ? DType::f16 : DType::boolean);
    default:
      return real_op(dice_.pick(kReals));
  }
}

Item RandomValues::reducible(Kind kind, DType type) {
  if (kind == Kind::any || kind == Kind::all) return compute(Op::bit_not, type, {of(type)}, 1);
  if (is_integer(type)) return compute(Op::bit_xor, type, {of(type), constant(type)}, kUnbounded);
  // Sums of small integers and products of powers of two do not depend on the order.
  if (is_exact_ && kind == Kind::sum) return compute(Op::cast, type, {of(dice_.chance(0.5) ? DType::i8 : DType::u8)});
  if (is_exact_ && kind == Kind::prod) return compute(Op::select, type, {of(DType::boolean), constant(type, 2), constant(type, 0.5)});
  Item a = clamped(of(type), kind == Kind::prod ? 1 : 30);
  return compute(Op::neg, type, {a}, a.limit, a.error);
}

Item RandomValues::reduced(Kind kind, const Item& value, int64_t iterations) {
  auto n = static_cast<double>(iterations);
  Item item{new_register(), value.type, value.limit, value.error};
  if (!is_real(item.type)) return item;
  double step = epsilon(item.type);
  if (kind == Kind::sum) item.limit = n * value.limit;
  if (kind == Kind::prod) item.limit = 1;
  if (!is_exact_ && kind == Kind::sum) item.error = n * (value.error + step * item.limit);
  if (!is_exact_ && kind == Kind::prod) item.error = n * (value.error + step);
  return item;
}

}  // namespace tenon::test
