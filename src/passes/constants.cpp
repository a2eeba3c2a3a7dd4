#include "passes/constants.h"

#include <bit>
#include <cmath>
#include <limits>

#include "ir/graph/node.h"

namespace tenon::passes {
namespace {

using ir::DType;

constexpr int64_t kMaxExactInteger = int64_t{1} << 53;  // A double represents every integer up to this magnitude.

template <class T>
std::optional<Element> real(DType dtype, T value) {
  if (std::isnan(value) || std::fpclassify(value) == FP_SUBNORMAL) return std::nullopt;
  return Element{dtype, static_cast<double>(value)};
}

template <class T>
std::optional<Element> compute_real(char sign, DType dtype, T a, T b) {
  switch (sign) {
    case '+':
      return real<T>(dtype, a + b);
    case '-':
      return real<T>(dtype, a - b);
    case '*':
      return real<T>(dtype, a * b);
    case '/':
      return real<T>(dtype, a / b);
    default:
      return std::nullopt;
  }
}

std::optional<Element> compute_integer(char sign, DType dtype, int64_t a, int64_t b) {
  int64_t result = 0;
  bool over = sign == '+'   ? __builtin_add_overflow(a, b, &result)
              : sign == '-' ? __builtin_sub_overflow(a, b, &result)
              : sign == '*' ? __builtin_mul_overflow(a, b, &result)
                            : true;
  bool fits = dtype == DType::i64 || (result >= std::numeric_limits<int32_t>::min() && result <= std::numeric_limits<int32_t>::max());
  if (over || !fits) return std::nullopt;
  return Element{dtype, result};
}

}  // namespace

std::optional<Element> convert(const Element& element, DType to) {
  if (const auto* value = std::get_if<double>(&element.value)) {
    if (to == DType::f64) return real(to, *value);
    if (to == DType::f32)
      return std::isfinite(*value) && std::fabs(*value) > std::numeric_limits<float>::max() ? std::nullopt
                                                                                            : real(to, static_cast<float>(*value));
    return std::nullopt;
  }
  const auto* flag = std::get_if<bool>(&element.value);
  int64_t integer = flag ? *flag : std::get<int64_t>(element.value);
  if (to == DType::boolean) return flag ? std::optional(Element{to, *flag}) : std::nullopt;
  if (to == DType::f64 || to == DType::f32) {
    if (integer < -kMaxExactInteger || integer > kMaxExactInteger) return std::nullopt;
    return convert({DType::f64, static_cast<double>(integer)}, to);
  }
  if (to != DType::i64 && to != DType::i32) return std::nullopt;
  return compute_integer('+', to, integer, 0);
}

std::optional<Element> element_in(const ir::Attribute& attribute, DType to) {
  if (const auto* value = std::get_if<double>(&attribute)) return convert({DType::f64, *value}, to);
  auto from_size = [&](const ir::Size& size) { return size.is_number() ? convert({DType::i64, size.number()}, to) : std::nullopt; };
  if (const auto* size = std::get_if<ir::Size>(&attribute)) return from_size(*size);
  if (const auto* flag = std::get_if<bool>(&attribute)) return convert({DType::boolean, *flag}, to);
  const auto* tensor = std::get_if<ir::ScalarTensor>(&attribute);
  if (!tensor || (tensor->plain && tensor->dtype != to)) return std::nullopt;
  if (const auto* value = std::get_if<double>(&tensor->number)) return convert({DType::f64, *value}, to);
  if (const auto* size = std::get_if<ir::Size>(&tensor->number)) return from_size(*size);
  if (const auto* flag = std::get_if<bool>(&tensor->number)) return convert({DType::boolean, *flag}, to);
  return std::nullopt;
}

std::optional<Element> compute(char sign, const Element& a, const Element& b) {
  if (a.dtype != b.dtype) return std::nullopt;
  if (a.dtype == DType::i64 || a.dtype == DType::i32)
    return compute_integer(sign, a.dtype, std::get<int64_t>(a.value), std::get<int64_t>(b.value));
  if (a.dtype == DType::f64) return compute_real(sign, a.dtype, std::get<double>(a.value), std::get<double>(b.value));
  if (a.dtype != DType::f32) return std::nullopt;
  return compute_real(sign, a.dtype, static_cast<float>(std::get<double>(a.value)), static_cast<float>(std::get<double>(b.value)));
}

bool equals_bitwise(const Element& element, double value) {
  if (const auto* real = std::get_if<double>(&element.value)) return std::bit_cast<uint64_t>(*real) == std::bit_cast<uint64_t>(value);
  const auto* integer = std::get_if<int64_t>(&element.value);
  return integer && value == static_cast<double>(*integer) && !std::signbit(value);
}

ir::Attribute to_attribute(const Element& element) {
  return std::visit([](auto value) { return ir::Attribute(value); }, element.value);
}

}  // namespace tenon::passes
