// Lowering: a group of nodes in, a kernel of the loop language and the numbers to run it with out.
#pragma once

#include "ir/graph/group.h"
#include "ir/loop/loop.h"

namespace tenon::loops {

// One run of a kernel.
struct Launch {
  std::vector<int64_t> sizes;    // for the kernel
  std::vector<int64_t> offsets;  // per buffer, in elements
  int64_t iterations = 0;        // of its parallel loop
  int64_t elements = 0;          // in all, to tell whether threads are worth it
};

struct Lowered {
  ir::loop::Kernel kernel;
  std::vector<ir::ValueId> buffers;  // inputs, then outputs
  std::vector<int32_t> scalars;      // of the graph
  std::vector<Launch> launches;
};

Lowered lower(const ir::Graph& graph, const ir::Group& group, const std::string& name);

}  // namespace tenon::loops
