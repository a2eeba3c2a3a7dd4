// Options::verify: a graph's executable beside plain interpretation of the same graph, on real calls.
// For executables that promise eager's bits; kernels of ours are compared by driver/kernel_check.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver/quarantine.h"
#include "runtime/interpreter.h"

namespace tenon::driver {

// Whether run number `run` is one that is compared, if `fraction` of them are.
bool is_sampled(size_t run, double fraction);

class Verifier {
 public:
  // `oracle` makes every copy that the graph asks for.
  Verifier(double fraction, std::shared_ptr<const runtime::Interpreter> oracle, std::shared_ptr<Quarantine> quarantine)
      : fraction_(fraction), oracle_(std::move(oracle)), quarantine_(std::move(quarantine)) {}

  bool wants(size_t run) const { return is_sampled(run, fraction_); }
  std::vector<at::Tensor> run_oracle(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) const {
    return oracle_->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  }

  // Runs the oracle; and `run`, on what the inputs held before. Returns the oracle's outputs if
  // they differ, and quarantines the graph.
  std::vector<at::Tensor> compare(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars,
                                  const std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>& run) const;

 private:
  double fraction_;
  std::shared_ptr<const runtime::Interpreter> oracle_;
  std::shared_ptr<Quarantine> quarantine_;
};

}  // namespace tenon::driver
