// Backend `native`: a graph whose groups of nodes are kernels and library calls, with a memory plan.
#pragma once

#include <tenon/inspect.h>

#include <memory>
#include <vector>

#include "build/quarantine.h"
#include "ir/graph/graph.h"
#include "runtime/interpreter.h"

namespace tenon::build {

struct NativeOptions {
  double verify = 0;            // Fraction of the runs that are compared with ATen.
  bool keeps_weights = false;   // Weights are constant for many calls, so they may be prepacked.
  bool for_autotuning = false;  // Each kernel is compiled in all versions that the tuner may choose from.
  bool keeps_memory = false;    // Scratch memory and results are reused in the next run.
};

struct Native {
  std::shared_ptr<const runtime::Interpreter> interpreter;
  std::vector<Explanation::Kernel> kernels;   // One per fused op of the interpreter.
  std::vector<Explanation::Call> aten_calls;  // Ops that run in ATen.
};

Native make_native(const ir::Graph& graph, const std::vector<c10::IValue>& resources, const NativeOptions& options,
                   const std::shared_ptr<Quarantine>& quarantine);

}  // namespace tenon::build
