// What explain reports about the kernels and library calls of a graph.
#pragma once

#include <tenon/inspect.h>

#include <string>
#include <vector>

#include "ir/graph/group.h"
#include "loops/lower.h"

namespace tenon::build {

// A kernel or library call, for all sizes of the graph.
struct KernelDescription {
  Explanation::Kernel kernel;  // Sizes and numbers of bytes are left out.
  ir::SizeList sizes;
  std::vector<ir::ValueId> outer;  // Values that the kernel reads and writes.
  std::vector<ir::ValueId> apart;  // Values that its ops would read and write one by one.

  // `graph` is the one that was described, before or after fusion.
  Explanation::Kernel at(const ir::Graph& graph, const ir::SymbolValues& symbols) const;
};

// One per group.
std::vector<KernelDescription> describe_kernels(const ir::Graph& graph, const std::vector<ir::Group>& groups,
                                                const std::vector<loops::Lowered>& lowered);
// The ops of a fused graph that run in ATen, with the reason for these sizes.
std::vector<Explanation::Call> describe_aten_calls(const ir::Graph& fused, const ir::SymbolValues& symbols);

// The name of a rewrite: its op with several results, which does most of the work.
std::string name_of(const ir::Rewrite& rewrite);

}  // namespace tenon::build
