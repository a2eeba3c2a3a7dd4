#include "passes/constants.h"

#include <bit>
#include <cmath>
#include <limits>

#include "ir/graph/node.h"

namespace tenon::passes {
namespace {

using ir::DType;

constexpr int64_t kWhole = int64_t{1} << 53;  // up to here a double holds every whole number

template <class T>
std::optional<Element> real(DType dtype, T number) {
  if (std::isnan(number) || std::fpclassify(number) == FP_SUBNORMAL) return std::nullopt;
  return Element{dtype, static_cast<double>(number)};
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

std::optional<Element> compute_whole(char sign, DType dtype, int64_t a, int64_t b) {
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
  if (const auto* number = std::get_if<double>(&element.number)) {
    if (to == DType::f64) return real(to, *number);
    if (to == DType::f32)
      return std::isfinite(*number) && std::fabs(*number) > std::numeric_limits<float>::max() ? std::nullopt
                                                                                              : real(to, static_cast<float>(*number));
    return std::nullopt;
  }
  const auto* flag = std::get_if<bool>(&element.number);
  int64_t whole = flag ? *flag : std::get<int64_t>(element.number);
  if (to == DType::boolean) return flag ? std::optional(Element{to, *flag}) : std::nullopt;
  if (to == DType::f64 || to == DType::f32) {
    if (whole < -kWhole || whole > kWhole) return std::nullopt;
    return convert({DType::f64, static_cast<double>(whole)}, to);
  }
  if (to != DType::i64 && to != DType::i32) return std::nullopt;
  return compute_whole('+', to, whole, 0);
}

std::optional<Element> element_in(const ir::Attribute& attribute, DType to) {
  if (const auto* number = std::get_if<double>(&attribute)) return convert({DType::f64, *number}, to);
  if (const auto* number = std::get_if<int64_t>(&attribute)) return convert({DType::i64, *number}, to);
  if (const auto* flag = std::get_if<bool>(&attribute)) return convert({DType::boolean, *flag}, to);
  const auto* tensor = std::get_if<ir::NumberTensor>(&attribute);
  if (!tensor || (tensor->plain && tensor->dtype != to)) return std::nullopt;
  if (const auto* number = std::get_if<double>(&tensor->number)) return convert({DType::f64, *number}, to);
  if (const auto* number = std::get_if<int64_t>(&tensor->number)) return convert({DType::i64, *number}, to);
  if (const auto* flag = std::get_if<bool>(&tensor->number)) return convert({DType::boolean, *flag}, to);
  return std::nullopt;
}

std::optional<Element> compute(char sign, const Element& a, const Element& b) {
  if (a.dtype != b.dtype) return std::nullopt;
  if (a.dtype == DType::i64 || a.dtype == DType::i32)
    return compute_whole(sign, a.dtype, std::get<int64_t>(a.number), std::get<int64_t>(b.number));
  if (a.dtype == DType::f64) return compute_real(sign, a.dtype, std::get<double>(a.number), std::get<double>(b.number));
  if (a.dtype != DType::f32) return std::nullopt;
  return compute_real(sign, a.dtype, static_cast<float>(std::get<double>(a.number)), static_cast<float>(std::get<double>(b.number)));
}

bool is_number(const Element& element, double number) {
  if (const auto* real = std::get_if<double>(&element.number)) return std::bit_cast<uint64_t>(*real) == std::bit_cast<uint64_t>(number);
  const auto* whole = std::get_if<int64_t>(&element.number);
  return whole && number == static_cast<double>(*whole) && !std::signbit(number);
}

ir::Attribute to_attribute(const Element& element) {
  return std::visit([](auto number) { return ir::Attribute(number); }, element.number);
}

}  // namespace tenon::passes
