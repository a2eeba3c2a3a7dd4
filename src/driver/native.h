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
  ir::Graph graph;  // with `tenon::fused` nodes
  std::vector<runtime::KernelStep> kernels;
  std::vector<Explanation::Kernel> notes;  // one a kernel
  // One a kernel: a result and an operand that may be one memory.
  std::vector<std::vector<std::pair<ir::ValueId, ir::ValueId>>> may_share;
  std::vector<Explanation::Call> left;
};

// False in a build without code generation.
bool has_native();

struct NativeOptions {
  double verify = 0;           // the fraction of runs that are compared with ATen
  bool keeps_weights = false;  // what the program keeps hardly ever changes, so it may be packed
  bool for_trials = false;     // kernels are compiled in all the ways that a trial may choose from
};
// Equal kernels are compiled once in a process.
Native make_native(const ir::Graph& graph, const NativeOptions& options, std::shared_ptr<Quarantine> quarantine);

// On a static plan of memory, which is kept between runs or not. Takes the graph and the kernels out.
std::shared_ptr<const runtime::Interpreter> interpret(Native& native, const std::vector<c10::IValue>& resources, bool keeps_memory);

// Runs a graph, which may run more than once for one call, in all its ways and leaves it in the fastest.
void tune(const runtime::Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars, double seconds);

// Of a kernel in the text of the loop language, for this CPU.
std::string llvm_text(const std::string& kernel);
std::string assembly(const std::string& kernel);

}  // namespace tenon::driver
