// Optimizers that a pure function steps: constants of its ops depend on counts of steps and learning rates, which change from call to
// call. They are inputs of the graph, computed by the expressions of libtorch before each call.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "capture/recorder.h"
#include "tenon/detail/watch.h"

namespace tenon::driver {

class HostSteps {
 public:
  explicit HostSteps(std::vector<std::function<detail::HostStep()>> optimizers = {});

  // Notes after the recorded run which parameters it has counted a step for.
  void finish();

  // Finds the constants of two recordings of the same ops that the optimizers compute. Returns false if the optimizers did something else
  // in each. What was found for a recording is never changed, since calls use it.
  static bool bind(HostSteps& a, const capture::Recorder& of_a, HostSteps& b, const capture::Recorder& of_b, size_t ops);
  // One flag per free scalar of the tape: it is such a constant. Empty if the run made no step.
  const std::vector<bool>& is_bound() const { return is_bound_; }
  bool makes_steps() const { return !is_bound_.empty(); }

  // The constants of the next call: one number per element of `scalars`, which are indices of free scalars of the tape; `recorded` has
  // their recorded values. Returns nullopt if the optimizers have other parameters now.
  std::optional<std::vector<double>> constants(const std::vector<int32_t>& scalars, const std::vector<double>& recorded) const;
  // Counts a step as the recorded run did.
  void count() const;

 private:
  std::vector<detail::HostStep> now() const;

  std::vector<std::function<detail::HostStep()>> optimizers_;
  std::vector<detail::HostStep> before_;      // State before the recorded run.
  std::vector<std::vector<int64_t>> counts_;  // Counts of steps before the recorded run.
  std::vector<std::vector<bool>> counted_;    // One flag per optimizer and parameter: the run has counted a step.
  std::vector<int32_t> constant_of_;          // Index of the constant of all optimizers, or -1; one per free scalar of the tape.
  std::vector<bool> is_bound_;
  bool was_tried_ = false;
};

}  // namespace tenon::driver
