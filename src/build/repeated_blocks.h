// Repeated parts of a program, such as the layers of a model.
#pragma once

#include <tenon/inspect.h>

#include <vector>

namespace tenon::build {

// The longest part of the list that consists of copies of its beginning. Zero copies if no kernel or block of kernels follows itself.
Explanation::Graph::RepeatedBlocks repeated_blocks(const std::vector<Explanation::Kernel>& kernels);

}  // namespace tenon::build
