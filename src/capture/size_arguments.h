// Tells which integer arguments of an op may be sizes. Others choose what the op does: a dimension, a reduction, an element type.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::capture {

bool may_be_size(const ir::Node& node, size_t argument);

}  // namespace tenon::capture
