// Attention that a program writes out: two products with a softmax between them, scaled and masked on
// the way, become one call of ATen's flash attention, which never holds all scores at once.
#pragma once

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_attention(const ir::Graph& graph);

}  // namespace tenon::passes
