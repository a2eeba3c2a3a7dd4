// A conversion of a converted tensor, where the first one loses nothing, converts the original; back
// to where it came from it is a copy.
//
// What loses nothing, bit for bit in ATen: integers and bools into any type that holds them all, f32
// into f64 (but for the quiet bit of a signalling NaN, which no ATen op makes). Not bf16 or f16 into
// f32 and back: ATen gives their NaNs other bits on the way (0x7fc0 comes back as 0xffff).
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns how many conversions changed.
size_t eliminate_casts(ir::Graph& graph);

// Does `through` hold every value of `from`, and come back with the same bits?
bool loses_nothing(ir::DType from, ir::DType through);

}  // namespace tenon::passes
