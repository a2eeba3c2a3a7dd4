// A kernel at its place in a graph: machine code and the numbers to run it with.
#pragma once

#include <c10/util/ArrayRef.h>

#include <memory>
#include <vector>

#include "abi/kernel.h"

namespace tenon::runtime {

struct KernelStep {
  struct Launch {
    std::vector<int64_t> sizes;
    std::vector<int64_t> offsets;  // per buffer, in bytes
    int64_t iterations = 0;
    int64_t grain = 0;  // iterations that are worth a thread
  };
  abi::KernelFunction function = nullptr;
  std::shared_ptr<const void> owner;  // of the code
  std::vector<int32_t> scalars;       // of the graph
  std::vector<Launch> launches;
};

// `memory`: one pointer a buffer of the kernel; `scalars`: those of the graph.
void run(const KernelStep& step, c10::ArrayRef<void*> memory, c10::ArrayRef<double> scalars);

}  // namespace tenon::runtime
