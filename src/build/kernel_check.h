// Compares the results of a kernel with those of ATen's ops on the same inputs, under the numeric policy; a run in f64 is the
// reference.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "build/policy.h"
#include "build/quarantine.h"
#include "build/tensors.h"
#include "runtime/interpreter.h"

namespace tenon::build {

// An interpreter that runs a graph op by op in ATen.
std::shared_ptr<const runtime::Interpreter> interpret(std::shared_ptr<const ir::Graph> graph, const ir::SymbolValues& symbols);

class KernelCheck {
 public:
  // `ops` are the nodes of the kernel's group. `fraction` of the runs are compared. `serve_eager`: the program continues with ATen's
  // results even if those of the kernel are right, so that tests can compare the whole program bit by bit.
  KernelCheck(const std::shared_ptr<const ir::Graph>& ops, const ir::SymbolValues& symbols, double fraction, bool serve_eager,
              runtime::FusedOp op, std::shared_ptr<Quarantine> quarantine);

  // Called after each run of the kernel.
  void operator()(c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> outputs, c10::ArrayRef<double> scalars) const;

 private:
  std::vector<Comparison> comparisons(const Tensors& inputs, const Tensors& outputs, c10::ArrayRef<double> scalars, bool noise,
                                      size_t run) const;
  Tensors run_kernel(const Tensors& inputs, c10::ArrayRef<double> scalars) const;

  double fraction_;
  bool serve_eager_;
  Leeway leeway_;
  runtime::FusedOp op_;
  std::shared_ptr<Quarantine> quarantine_;
  std::shared_ptr<const runtime::Interpreter> eager_, truth_, noisy_;
  std::vector<double> units_;  // Relative size of each noise input.
  mutable std::atomic<size_t> runs_{0};
};

}  // namespace tenon::build
