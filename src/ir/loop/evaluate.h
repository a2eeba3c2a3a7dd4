// Runs a kernel, one number at a time: what generated code is compared with. Sums and products of
// reals are taken in the widest type and rounded once, so they are nearer to the truth than any
// order of additions in the type itself.
#pragma once

#include "abi/kernel.h"
#include "ir/loop/loop.h"

namespace tenon::ir::loop {

// The kernel must be verified; all its iterations run.
void evaluate(const Kernel& kernel, const abi::KernelArguments& arguments);

}  // namespace tenon::ir::loop
