#include "ir/loop/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/halves.h"

namespace tenon::ir::loop {
namespace {

[[noreturn]] void cannot(const std::string& what) { throw InternalError("loop evaluator: " + what); }

int64_t wrap(int64_t value, DType type) {
  switch (type) {
    case DType::i64:
      return value;
    case DType::i32:
      return static_cast<int32_t>(value);
    case DType::i16:
      return static_cast<int16_t>(value);
    case DType::i8:
      return static_cast<int8_t>(value);
    case DType::u8:
      return static_cast<uint8_t>(value);
    case DType::boolean:
      return value != 0;
    default:
      cannot("not an integer type");
  }
}

double round_to(double value, DType type) {
  switch (type) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<float>(value);
    case DType::bf16:
      return bf16_to_float(float_to_bf16(static_cast<float>(value)));
    case DType::f16:
      return f16_to_float(float_to_f16(static_cast<float>(value)));
    default:
      cannot("not a floating-point type");
  }
}

// Values outside the range of i64 become its minimum, as on x86.
int64_t truncate(double value) {
  bool fits = value >= -0x1p63 && value < 0x1p63;
  return fits ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
}

double transcendental(Op op, double a, double b) {
  switch (op) {
    case Op::exp:
      return std::exp(a);
    case Op::exp2:
      return std::exp2(a);
    case Op::expm1:
      return std::expm1(a);
    case Op::log:
      return std::log(a);
    case Op::log2:
      return std::log2(a);
    case Op::log10:
      return std::log10(a);
    case Op::log1p:
      return std::log1p(a);
    case Op::sin:
      return std::sin(a);
    case Op::cos:
      return std::cos(a);
    case Op::tan:
      return std::tan(a);
    case Op::asin:
      return std::asin(a);
    case Op::acos:
      return std::acos(a);
    case Op::atan:
      return std::atan(a);
    case Op::atan2:
      return std::atan2(a, b);
    case Op::sinh:
      return std::sinh(a);
    case Op::cosh:
      return std::cosh(a);
    case Op::tanh:
      return std::tanh(a);
    case Op::asinh:
      return std::asinh(a);
    case Op::acosh:
      return std::acosh(a);
    case Op::atanh:
      return std::atanh(a);
    case Op::erf:
      return std::erf(a);
    case Op::erfc:
      return std::erfc(a);
    case Op::lgamma:
      return std::lgamma(a);
    case Op::pow:
      return std::pow(a, b);
    default:
      cannot(std::string("no meaning for ") + op_name(op));
  }
}

// Computes in the type itself, so that each op rounds once.
template <class Real>
Real real_op(Op op, Real a, Real b, Real c) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
      return a / b;
    case Op::neg:
      return -a;
    case Op::abs:
      return std::fabs(a);
    case Op::max:
      return std::isnan(a) || std::isnan(b) ? a + b : a > b ? a : b;
    case Op::min:
      return std::isnan(a) || std::isnan(b) ? a + b : a < b ? a : b;
    case Op::fma:
      return std::fma(a, b, c);
    case Op::sqrt:
      return std::sqrt(a);
    case Op::floor:
      return std::floor(a);
    case Op::ceil:
      return std::ceil(a);
    case Op::trunc:
      return std::trunc(a);
    case Op::round:
      return std::nearbyint(a);
    case Op::copysign:
      return std::copysign(a, b);
    case Op::fmod:
      return std::fmod(a, b);
    default:
      return static_cast<Real>(transcendental(op, a, b));
  }
}

int64_t integer_op(Op op, int64_t a, int64_t b, DType type) {
  auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);  // Unsigned arithmetic wraps.
  switch (op) {
    case Op::add:
      return static_cast<int64_t>(x + y);
    case Op::sub:
      return static_cast<int64_t>(x - y);
    case Op::mul:
      return static_cast<int64_t>(x * y);
    case Op::neg:
      return static_cast<int64_t>(0 - x);
    case Op::abs:
      return a < 0 ? static_cast<int64_t>(0 - x) : a;
    case Op::max:
      return a > b ? a : b;
    case Op::min:
      return a < b ? a : b;
    case Op::bit_and:
      return a & b;
    case Op::bit_or:
      return a | b;
    case Op::bit_xor:
      return a ^ b;
    case Op::bit_not:
      return type == DType::boolean ? !a : ~a;
    default:
      cannot(std::string("no meaning for ") + op_name(op) + " of integers");
  }
}

template <class T>
bool compare(Op op, T a, T b) {
  switch (op) {
    case Op::eq:
      return a == b;
    case Op::ne:
      return a != b;
    case Op::lt:
      return a < b;
    case Op::le:
      return a <= b;
    case Op::gt:
      return a > b;
    case Op::ge:
      return a >= b;
    default:
      cannot(std::string("no meaning for ") + op_name(op));
  }
}

ScalarValue cast(DType type, const ScalarValue& n) {
  if (is_floating(n.type)) return scalar_value(type, n.real);
  return scalar_value(type, n.integer);
}

template <class T>
T element(const void* buffer, int64_t at) {
  T value;
  std::memcpy(&value, static_cast<const char*>(buffer) + at * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

template <class T>
void set_element(T value, void* buffer, int64_t at) {
  std::memcpy(static_cast<char*>(buffer) + at * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

}  // namespace

ScalarValue scalar_value(DType type, double real) {
  if (is_floating(type)) return {type, round_to(real, type), 0};
  return {type, 0, type == DType::boolean ? real != 0 : wrap(truncate(real), type)};
}

ScalarValue scalar_value(DType type, int64_t integer) {
  if (type == DType::f64) return {type, static_cast<double>(integer), 0};
  if (is_floating(type)) return {type, round_to(static_cast<float>(integer), type), 0};
  return {type, 0, wrap(integer, type)};
}

ScalarValue compute(Op op, DType type, const std::vector<ScalarValue>& operands) {
  const ScalarValue none, &a = operands.at(0), &b = operands.size() > 1 ? operands[1] : none, &c = operands.size() > 2 ? operands[2] : none;
  switch (op_kind(op)) {
    case OpKind::cast:
      return cast(type, a);
    case OpKind::select:
      return a.integer ? b : c;
    case OpKind::compare:
      return {DType::boolean, 0, is_real(type) ? compare(op, a.real, b.real) : compare(op, a.integer, b.integer)};
    default:
      break;
  }
  if (type == DType::f64) return {type, real_op<double>(op, a.real, b.real, c.real), 0};
  if (type == DType::f32) {
    auto f = [](const ScalarValue& n) { return static_cast<float>(n.real); };
    return {type, real_op<float>(op, f(a), f(b), f(c)), 0};
  }
  return {type, 0, wrap(integer_op(op, a.integer, b.integer, type), type)};
}

ScalarValue read_element(DType type, const void* buffer, int64_t at) {
  switch (type) {
    case DType::f32:
      return {type, element<float>(buffer, at), 0};
    case DType::f64:
      return {type, element<double>(buffer, at), 0};
    case DType::bf16:
      return {type, bf16_to_float(element<uint16_t>(buffer, at)), 0};
    case DType::f16:
      return {type, f16_to_float(element<uint16_t>(buffer, at)), 0};
    case DType::i64:
      return {type, 0, element<int64_t>(buffer, at)};
    case DType::i32:
      return {type, 0, element<int32_t>(buffer, at)};
    case DType::i16:
      return {type, 0, element<int16_t>(buffer, at)};
    case DType::i8:
      return {type, 0, element<int8_t>(buffer, at)};
    case DType::u8:
      return {type, 0, element<uint8_t>(buffer, at)};
    case DType::boolean:
      return {type, 0, element<uint8_t>(buffer, at) != 0};
    default:
      cannot("a buffer of a type that kernels do not know");
  }
}

void write_element(const ScalarValue& value, void* buffer, int64_t at) {
  switch (value.type) {
    case DType::f32:
      return set_element(static_cast<float>(value.real), buffer, at);
    case DType::f64:
      return set_element(value.real, buffer, at);
    case DType::bf16:
      return set_element(float_to_bf16(static_cast<float>(value.real)), buffer, at);
    case DType::f16:
      return set_element(float_to_f16(static_cast<float>(value.real)), buffer, at);
    case DType::i64:
      return set_element(value.integer, buffer, at);
    case DType::i32:
      return set_element(static_cast<int32_t>(value.integer), buffer, at);
    case DType::i16:
      return set_element(static_cast<int16_t>(value.integer), buffer, at);
    case DType::i8:
      return set_element(static_cast<int8_t>(value.integer), buffer, at);
    case DType::u8:
    case DType::boolean:
      return set_element(static_cast<uint8_t>(value.integer), buffer, at);
    default:
      cannot("a buffer of a type that kernels do not know");
  }
}

}  // namespace tenon::ir::loop
