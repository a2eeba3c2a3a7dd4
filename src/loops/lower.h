// Lowers a group of nodes to a kernel of the loop language and its run-time arguments.
#pragma once

#include <string>
#include <utility>

#include "ir/graph/group.h"
#include "ir/loop/loop.h"
#include "loops/terms.h"

namespace tenon::loops {

struct Lowered {
  ir::loop::LoopKernel kernel;
  std::string key;                    // Result of ir::loop::key.
  std::vector<ir::ValueId> buffers;   // Inputs, then outputs.
  std::vector<KernelScalar> scalars;  // Scalar arguments of the kernel.
  ir::SizeList sizes;                 // Size arguments of the kernel.
  ir::Size iterations = 1;            // Number of iterations of the parallel loop.
  ir::Size elements = 1;              // Total number of elements, which decides how many threads are used.
  // Pairs of an output and an input, as indices in `buffers`, that may share memory: each element of
  // the input is read for the last time before the output's element is written.
  std::vector<std::pair<int32_t, int32_t>> may_share;
};

Lowered lower(const ir::Graph& graph, const ops::Lowerings& lowerings, const ir::Group& group, const std::string& name);

}  // namespace tenon::loops
