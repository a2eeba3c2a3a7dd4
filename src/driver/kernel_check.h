// Compares what a kernel computed with what ATen's ops compute from the same inputs, to the numeric
// policy, and with a run in f64 as the truth.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "driver/policy.h"
#include "driver/quarantine.h"
#include "ir/graph/group.h"
#include "runtime/interpreter.h"

namespace tenon::driver {

// What runs a graph's ops one by one.
std::shared_ptr<const runtime::Interpreter> interpret(ir::Graph graph);

class KernelCheck {
 public:
  // `fraction` of the runs are compared. `serve_eager`: the program goes on with ATen's results even
  // where the kernel's are right, so that tests can compare all of it bit by bit.
  KernelCheck(const ir::Graph& graph, const ir::Group& group, double fraction, bool serve_eager, runtime::KernelStep step,
              std::shared_ptr<Quarantine> quarantine);

  // After a run of the kernel.
  void operator()(c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> outputs, c10::ArrayRef<double> scalars) const;

 private:
  using Tensors = std::vector<at::Tensor>;
  std::vector<Sample> samples(const Tensors& inputs, const Tensors& outputs, c10::ArrayRef<double> scalars, bool noise, size_t run) const;
  Tensors run_kernel(const Tensors& inputs, c10::ArrayRef<double> scalars) const;

  double fraction_;
  bool serve_eager_;
  Leeway leeway_;
  runtime::KernelStep step_;
  std::shared_ptr<Quarantine> quarantine_;
  std::shared_ptr<const runtime::Interpreter> eager_, truth_, noisy_;
  std::vector<double> units_;  // of the noise
  mutable std::atomic<size_t> runs_{0};
};

}  // namespace tenon::driver
