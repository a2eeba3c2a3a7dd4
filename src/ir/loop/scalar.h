// The ops of ops.def on single scalars.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/loop/loop.h"

namespace tenon::ir::loop {

struct ScalarValue {
  DType type = DType::f32;
  double real = 0;      // The value if the type is floating; a double holds all of them exactly.
  int64_t integer = 0;  // The value if the type is an integer type or bool.
};

// Rounds or wraps a value to the type, as a cast does.
ScalarValue scalar_value(DType type, double real);
ScalarValue scalar_value(DType type, int64_t integer);

ScalarValue compute(Op op, DType type, const std::vector<ScalarValue>& operands);

ScalarValue read_element(DType type, const void* buffer, int64_t at);
void write_element(const ScalarValue& value, void* buffer, int64_t at);

}  // namespace tenon::ir::loop
