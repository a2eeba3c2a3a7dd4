// Interprets a kernel one element at a time, as the reference for generated code. Sums and products
// of reals are computed in the widest type and rounded once, so they are more exact than any order
// of additions in the type itself.
#pragma once

#include "abi/kernel.h"
#include "ir/loop/loop.h"

namespace tenon::ir::loop {

// The kernel must be verified; all its iterations run.
void evaluate(const LoopKernel& kernel, const abi::KernelArguments& arguments);

}  // namespace tenon::ir::loop
