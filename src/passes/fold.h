// Constant folding: a tensor whose elements are all one known constant becomes one `aten::full`. No-ops
// (x * 1, x / 1, x - 0, copies) are dropped.
//
// Every bit is preserved. x + 0.0 stays, because it changes -0.0 to 0.0 (x + -0.0 is dropped). x * 1 in
// bf16 or f16 stays, because ATen changes the bits of NaNs. Scalars and symbolic sizes, which may change
// from call to call, are not constants.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns the number of changed and removed nodes.
size_t fold(ir::Graph& graph);

}  // namespace tenon::passes
