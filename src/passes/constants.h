// Constant folding of single elements: the bits of ATen's result, or nothing where they are not
// certain.
#pragma once

#include <optional>
#include <variant>

#include "ir/graph/graph.h"

namespace tenon::passes {

// One element of a tensor; a double holds elements of floating types.
struct Element {
  ir::DType dtype = ir::DType::f32;
  std::variant<int64_t, double, bool> value;
};

// Converts as ATen does; supports f32, f64, i64, i32 and bool. Returns nothing for NaN, whose bits a
// constant does not determine, and for subnormals, which a setting may flush to zero.
std::optional<Element> convert(const Element& element, ir::DType to);

// Returns the scalar in an argument as an element of type `to`; nothing if it is symbolic.
std::optional<Element> element_in(const ir::Attribute& attribute, ir::DType to);

// Computes + - * / on f32 and f64, and + - * on i64 and i32. Operands have the type of the result.
std::optional<Element> compute(char sign, const Element& a, const Element& b);

bool equals_bitwise(const Element& element, double value);  // Bitwise comparison: -0.0 is not 0.0.

// Returns an element as the argument of `aten::full`.
ir::Attribute to_attribute(const Element& element);

}  // namespace tenon::passes
