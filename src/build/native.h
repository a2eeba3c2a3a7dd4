// Backend `native`: a graph whose groups of nodes are kernels and library calls, with a memory plan.
#pragma once

#include <tenon/inspect.h>

#include <memory>
#include <utility>
#include <vector>

#include "build/describe.h"
#include "build/fused_ops.h"
#include "build/native_options.h"
#include "build/quarantine.h"
#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"
#include "runtime/interpreter.h"

namespace tenon::build {

// What is compiled once for all sizes of a graph.
class NativeProgram {
 public:
  // Pairs of a result and an operand that may share a buffer, per group.
  using SharedBuffers = std::vector<std::vector<std::pair<ir::ValueId, ir::ValueId>>>;
  struct NativeParts {
    std::shared_ptr<const ir::Graph> fused;  // The graph with one node per group.
    FusedOps ops;                            // Steps of the groups.
    SharedBuffers may_share;
    ir::Reuse reuse;
    std::vector<KernelDescription> kernels;     // One per group.
    std::vector<Explanation::Call> aten_calls;  // Ops that run in ATen.
    std::vector<c10::IValue> resources;
    bool keeps_memory = false;
  };
  explicit NativeProgram(NativeParts parts) : parts_(std::move(parts)) {}

  // The plan for these values of the symbols, which must fulfil the conditions of the program.
  std::shared_ptr<const runtime::Interpreter> at(const ir::SymbolValues& symbols) const;
  // What explain reports; one kernel per fused op of an interpreter.
  std::vector<Explanation::Kernel> kernels(const ir::SymbolValues& symbols) const;
  // Their indices in the order in which they run.
  std::vector<size_t> kernel_order() const;
  const std::vector<Explanation::Call>& aten_calls() const { return parts_.aten_calls; }

 private:
  bool takes_buffers(const ir::Node& node) const;
  ir::Arena plan_memory(const ir::SymbolValues& symbols) const;

  NativeParts parts_;
};

// Adds to `conditions` what must hold for other sizes than the recorded ones.
std::shared_ptr<const NativeProgram> make_native(const std::shared_ptr<const ir::Graph>& graph, const std::vector<c10::IValue>& resources,
                                                 const NativeOptions& options, const std::shared_ptr<Quarantine>& quarantine,
                                                 std::vector<ir::Condition>& conditions);

}  // namespace tenon::build
