// What ops.def means, for one number at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/loop/loop.h"

namespace tenon::ir::loop {

struct Number {
  DType type = DType::f32;
  double real = 0;      // of floating-point types; exact for all of them
  int64_t integer = 0;  // of the others
};

// Rounds or wraps to the type, as a cast does.
Number number_of(DType type, double real);
Number number_of(DType type, int64_t integer);

Number compute(Op op, DType type, const std::vector<Number>& operands);

Number read_element(DType type, const void* buffer, int64_t at);
void write_element(const Number& number, void* buffer, int64_t at);

}  // namespace tenon::ir::loop
