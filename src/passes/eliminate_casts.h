// Two conversions in a row become one if the first is lossless; a lossless round trip becomes a copy.
//
// Lossless in ATen, bit for bit, are conversions of integers and bools into types that hold all of them,
// and of f32 into f64 (except for the quiet bit of a signalling NaN, which no ATen op produces). bf16 and
// f16 into f32 and back are not lossless, because ATen changes the bits of NaNs (0x7fc0 becomes 0xffff).
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns the number of changed conversions.
size_t eliminate_casts(ir::Graph& graph);

// Returns whether `through` holds every value of `from` and converts back to the same bits.
bool loses_nothing(ir::DType from, ir::DType through);

}  // namespace tenon::passes
