// The rules of the loop language. verify() throws InternalError at the first violation, since kernels
// come from our own passes: registers are assigned once, before their uses and in an enclosing block;
// types match the ops; nothing is computed in bf16 or f16; buffers, sizes, scalars and variables
// exist; inputs are not written; outputs are only read after a store; loops are nested as loop.h says.
#pragma once

#include "ir/loop/loop.h"

namespace tenon::ir::loop {

void verify(const LoopKernel& kernel);

}  // namespace tenon::ir::loop
