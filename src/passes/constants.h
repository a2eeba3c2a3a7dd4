// Numbers as elements: what ATen's arithmetic gives for one element, bit for bit, or nothing where
// that is not certain.
#pragma once

#include <optional>
#include <variant>

#include "ir/graph/graph.h"

namespace tenon::passes {

// One element. Of a floating type: the number it holds, as a double.
struct Element {
  ir::DType dtype = ir::DType::f32;
  std::variant<int64_t, double, bool> number;
};

// Only f32, f64, i64, i32 and bool; a number that the type does not hold is rounded as ATen does.
// Nothing for NaN (whose bits a constant does not say) and for subnormal numbers (which a setting flushes).
std::optional<Element> convert(const Element& element, ir::DType to);

// The number in an argument, as an element of type `to`.
std::optional<Element> element_in(const ir::Attribute& attribute, ir::DType to);

// One of + - * / on f32 and f64, one of + - * on i64 and i32. Operands have the type of the result.
std::optional<Element> compute(char sign, const Element& a, const Element& b);

bool is_number(const Element& element, double number);  // -0.0 is not 0.0

// As the argument of `aten::full`.
ir::Attribute to_attribute(const Element& element);

}  // namespace tenon::passes
