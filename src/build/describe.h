// What explain reports about the kernels and library calls of a graph.
#pragma once

#include <tenon/inspect.h>

#include <string>
#include <vector>

#include "ir/graph/group.h"
#include "loops/lower.h"

namespace tenon::build {

// One per group.
std::vector<Explanation::Kernel> describe_kernels(const ir::Graph& graph, const std::vector<ir::Group>& groups,
                                                  const std::vector<loops::Lowered>& lowered);
// The ops of a fused graph that run in ATen, with the reason.
std::vector<Explanation::Call> describe_aten_calls(const ir::Graph& fused);

// The name of a rewrite: its op with several results, which does most of the work.
std::string name_of(const ir::Rewrite& rewrite);

}  // namespace tenon::build
