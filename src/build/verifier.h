// Options::verify: compares a graph's executable with plain interpretation of the same graph, on real calls.
// This is for executables that must give eager's bits; native kernels are compared by build/kernel_check.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "build/quarantine.h"
#include "build/tensors.h"
#include "runtime/interpreter.h"

namespace tenon::build {

// Whether the run with index `run` is compared, if `fraction` of all runs are.
bool is_sampled(size_t run, double fraction);

class ExecutableVerifier {
 public:
  // `oracle` makes every copy that the graph contains.
  ExecutableVerifier(double fraction, std::shared_ptr<const runtime::Interpreter> oracle, std::shared_ptr<Quarantine> quarantine)
      : fraction_(fraction), oracle_(std::move(oracle)), quarantine_(std::move(quarantine)) {}

  bool is_due(size_t run) const { return is_sampled(run, fraction_); }
  std::vector<at::Tensor> run_oracle(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) const {
    return oracle_->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  }

  // Runs the oracle and `run` on the same inputs. If the outputs differ, quarantines the graph and
  // returns those of the oracle.
  std::vector<at::Tensor> compare(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars,
                                  const std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>& run) const;

 private:
  double fraction_;
  std::shared_ptr<const runtime::Interpreter> oracle_;
  std::shared_ptr<Quarantine> quarantine_;
};

}  // namespace tenon::build
