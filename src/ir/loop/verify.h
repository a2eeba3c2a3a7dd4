// The rules of the loop language. verify() throws InternalError at the first one broken, since
// kernels come from our own passes: registers are assigned once, before their uses and in a block
// around them; types fit the ops; nothing is computed in bf16 or f16; buffers, sizes, scalars and
// variables exist; outputs are not read and inputs not written; loops are nested as loop.h says.
#pragma once

#include "ir/loop/loop.h"

namespace tenon::ir::loop {

void verify(const Kernel& kernel);

}  // namespace tenon::ir::loop
