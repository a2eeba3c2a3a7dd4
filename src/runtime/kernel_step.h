// A kernel at its place in a graph: machine code and the numbers to run it with.
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
#include "runtime/convolution.h"
#include "runtime/product.h"

namespace tenon::runtime {

// Machine code, and how it is shared out.
struct Code {
  std::string name;  // how explain calls it
  abi::KernelFunction function = nullptr;
  std::shared_ptr<const void> owner;
  int64_t grain = 0;  // iterations that are worth a thread
};

struct KernelStep {
  std::vector<Code> codes;                                                               // that compute the same; one is chosen
  std::shared_ptr<std::atomic<size_t>> code = std::make_shared<std::atomic<size_t>>(0);  // which
  std::vector<std::pair<int32_t, double>> numbers;                                       // each a scalar of the graph, or (-1) a known one
  std::vector<int64_t> sizes;
  int64_t iterations = 0;
  struct Range {
    size_t input = 0;  // a tensor of indices
    int64_t extent = 0;
    std::optional<int64_t> exempt;
  };
  std::vector<Range> ranges;  // in which indices are, or else `by_aten` computes the outputs, or throws
  using Ops = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>, c10::ArrayRef<double>)>;
  Ops by_aten;
  Ops call;                                        // instead of code; may be empty
  std::shared_ptr<const Product> product;          // or this
  std::shared_ptr<const Convolution> convolution;  // or this, or `by_aten` if it gives nothing
  // Is shown the inputs and the outputs after each run; may be empty.
  std::function<void(c10::ArrayRef<at::Tensor>, c10::ArrayRef<at::Tensor>, c10::ArrayRef<double>)> check;
};

bool are_in_range(const KernelStep& step, c10::ArrayRef<at::Tensor> inputs);

// `memory`: one pointer a buffer of the kernel; `scalars`: those of the graph.
void run(const KernelStep& step, c10::ArrayRef<void*> memory, c10::ArrayRef<double> scalars);

}  // namespace tenon::runtime
