// Lowering: a group of nodes in, a kernel of the loop language and the numbers to run it with out.
#pragma once

#include <utility>

#include "ir/graph/group.h"
#include "ir/loop/loop.h"
#include "loops/terms.h"

namespace tenon::loops {

struct Lowered {
  ir::loop::Kernel kernel;
  std::vector<ir::ValueId> buffers;  // inputs, then outputs
  std::vector<Number> numbers;       // for the kernel's scalars
  std::vector<int64_t> sizes;        // for the kernel's sizes
  int64_t iterations = 1;            // of its parallel loop
  int64_t elements = 1;              // in all, to tell whether threads are worth it
  // Output and input, by their place in `buffers`, that may be one memory: the input's elements are
  // read for the last time before the output's are written.
  std::vector<std::pair<int32_t, int32_t>> may_share;
};

Lowered lower(const ir::Graph& graph, const ir::Group& group, const std::string& name);

}  // namespace tenon::loops
