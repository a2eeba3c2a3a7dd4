// Options::verify: a graph's executable beside plain interpretation of the same graph, on real calls.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/interpreter.h"

namespace tenon::driver {

class Executable;

class Verifier {
 public:
  // `fraction` of the runs are compared; `oracle` makes every copy that the graph asks for. `truth`
  // runs the graph in f64; without it results must be the oracle's bit by bit. `serve_oracle`: the
  // program goes on with the oracle's results, so that tests can compare all of it bit by bit.
  Verifier(double fraction, std::shared_ptr<const runtime::Interpreter> oracle, std::shared_ptr<const runtime::Interpreter> truth,
           bool serve_oracle)
      : fraction_(fraction), oracle_(std::move(oracle)), truth_(std::move(truth)), serve_oracle_(serve_oracle) {}

  bool quarantined() const { return quarantined_; }
  bool wants(size_t run) const;
  std::string report() const;

  // Runs the oracle; and `run`, on what the inputs held before. Returns the oracle's outputs if
  // they differ, and quarantines the graph.
  std::vector<at::Tensor> compare(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars,
                                  const std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>& run) const;
  std::vector<at::Tensor> run_oracle(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) const {
    return oracle_->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  }

 private:
  // One run of all three: the results, and what the inputs held afterwards, one behind the other.
  struct Runs {
    std::vector<at::Tensor> got, eager, truth;
  };
  using Run = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>;
  Runs run_all(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars, const Run& run) const;
  std::vector<Runs> run_again(const std::vector<at::Tensor>& before, c10::ArrayRef<double> scalars, const Run& run) const;
  std::string first_difference(const std::vector<at::Tensor>& before, const Runs& runs, c10::ArrayRef<double> scalars,
                               const Run& run) const;
  std::vector<at::Tensor> run_truth(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) const;
  void quarantine(const std::string& difference, const std::vector<at::Tensor>& inputs) const;

  double fraction_;
  std::shared_ptr<const runtime::Interpreter> oracle_, truth_;
  bool serve_oracle_;
  mutable std::atomic<bool> quarantined_{false};
  mutable std::mutex mutex_;
  mutable std::string report_;
};

}  // namespace tenon::driver
