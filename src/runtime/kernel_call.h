// A kernel of a graph: machine code and its arguments besides buffers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "abi/kernel.h"

namespace tenon::runtime {

// Computes a group's outputs from its inputs and the graph's scalars, with ops of ATen.
using AtenOps = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>, c10::ArrayRef<double>)>;

// Machine code, and how its iterations are distributed over threads.
struct KernelCode {
  std::string name;  // Text in explain.
  abi::KernelFunction function = nullptr;
  std::shared_ptr<const void> owner;
  int64_t grain = 0;  // Minimum number of iterations per thread.
};

struct KernelCall {
  std::vector<KernelCode> codes;                                                         // Alternatives that compute the same.
  std::shared_ptr<std::atomic<size_t>> code = std::make_shared<std::atomic<size_t>>(0);  // Index of the alternative that runs.
  std::vector<std::pair<int32_t, double>> scalars;  // Index of a scalar of the graph, or -1 and a constant.
  std::vector<int64_t> sizes;
  int64_t iterations = 0;
  struct IndexCheck {
    size_t input = 0;  // The operand that holds indices.
    int64_t extent = 0;
    std::optional<int64_t> exempt;
  };
  std::vector<IndexCheck> ranges;
  AtenOps by_aten;  // Computes the outputs or throws, if an index is out of its range.
};

bool are_in_range(const KernelCall& kernel, c10::ArrayRef<at::Tensor> inputs);

// `memory` has one pointer per buffer of the kernel; `scalars` are those of the graph.
void run(const KernelCall& kernel, c10::ArrayRef<void*> memory, c10::ArrayRef<double> scalars);

}  // namespace tenon::runtime
