// The native backend: groups of a graph's nodes become kernels.
#pragma once

#include <tenon/inspect.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/quarantine.h"
#include "ir/graph/graph.h"
#include "runtime/interpreter.h"

namespace tenon::driver {

struct Native {
  ir::Graph graph;  // Each kernel is a `tenon::fused` node.
  std::vector<runtime::KernelStep> kernels;
  std::vector<Explanation::Kernel> notes;  // One per kernel.
  // Pairs of a result and an operand that may share a buffer, per kernel.
  std::vector<std::vector<std::pair<ir::ValueId, ir::ValueId>>> may_share;
  std::vector<Explanation::Call> aten_calls;
};

// False in a build without code generation.
bool has_native();

struct NativeOptions {
  double verify = 0;            // Fraction of the runs that are compared with ATen.
  bool keeps_weights = false;   // Weights are constant for many calls, so they may be prepacked.
  bool for_autotuning = false;  // Each kernel is compiled in all versions that the tuner may choose from.
};
// Equal kernels are compiled once in a process.
Native make_native(const ir::Graph& graph, const NativeOptions& options, std::shared_ptr<Quarantine> quarantine);

// An interpreter with a static memory plan; `keeps_memory` keeps its memory between runs. Moves the graph and the kernels out of
// `native`.
std::shared_ptr<const runtime::Interpreter> interpret(Native& native, const std::vector<c10::IValue>& resources, bool keeps_memory);

// Times all versions of a graph's steps and selects the fastest ones. The graph must be safe to run more than once.
void tune(const runtime::Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars, double seconds);

// LLVM IR and assembly, for this CPU, of a kernel given as loop-language text.
std::string llvm_text(const std::string& kernel);
std::string assembly(const std::string& kernel);

}  // namespace tenon::driver
