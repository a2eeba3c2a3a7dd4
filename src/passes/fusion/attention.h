// Finds attention that a program writes out: two matrix products with a softmax between them, with
// optional scale and mask. It becomes one call of ATen's flash attention, which never materializes all
// scores.
#pragma once

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_attention(const ir::Graph& graph);

}  // namespace tenon::passes
