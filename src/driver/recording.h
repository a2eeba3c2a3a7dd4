// One recorded run of a program: its tape, guards, results and side effects, and its backward once it
// has been recorded.
#pragma once

#include <any>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "capture/functionalize.h"
#include "capture/guards.h"
#include "capture/recorder.h"
#include "driver/host_steps.h"
#include "tenon/compile.h"

namespace tenon::driver {

struct ResultInfo {
  capture::TensorRef ref;
  int32_t same_as_external = -1;  // Index of the external that is the same tensor object.
  int32_t same_as_result = -1;    // Index of the earlier result that is the same tensor object.
  bool requires_grad = false;
  bool inference = false;
};

struct GradientEffect {
  int32_t external = 0;  // The leaf whose .grad changed.
  int32_t result = -1;   // Index into Recording::extra; -1 if .grad became undefined.
};

struct RecordedBackward {
  size_t first_op = 0;
  std::vector<bool> tangent_defined;          // One per differentiable result.
  std::vector<capture::TensorRef> tangents;   // The defined tangents.
  std::vector<capture::TensorRef> gradients;  // One per differentiable external.
};

// Kinds of backwards that calls with the same guards had besides the first recorded one.
struct BackwardKinds {
  std::atomic<bool> create_graph{false};
  std::atomic<bool> other_outputs{false};  // Another set of results had gradients.
};

struct Recording {
  Recording(const detail::Leaves& in, const detail::WatchedState& watched, capture::RecordOptions options)
      : recorder(options), guards(in, watched.numbers), host_steps(watched.optimizers), settings(capture::Settings::now()) {}

  capture::Tape& tape() { return recorder.tape(); }

  capture::Recorder recorder;
  capture::Guards guards;
  HostSteps host_steps;
  capture::Settings settings;
  std::shared_ptr<const std::any> prototype;
  std::vector<ResultInfo> results;
  std::vector<capture::TensorRef> extra;  // New gradients.
  std::vector<GradientEffect> gradient_effects;
  std::vector<at::Tensor> held;  // Strong handle per external; undefined for externals that are found by argument position.
  std::vector<int32_t> differentiable_externals;
  std::vector<int32_t> differentiable_results;  // Results that need an autograd node of ours.
  std::vector<std::string> obstacles;           // Reasons why no graph can serve the call.
  std::vector<std::string> autograd_obstacles;  // Reasons why the graph cannot be run again under autograd.
  std::vector<int64_t> version_bumps;           // One per external of the run.
  bool touches_gradients = false;
  bool new_leaves = false;      // The run used leaves of autograd that were unknown when it started.
  bool spent = false;           // The results were differentiated inside the run.
  bool differentiates = false;  // A backward ran inside.
  bool inference = false;       // The run entered inference mode and made results there.
  capture::TapeLength forward;  // The range of the tape that is the run itself; the rest is its backward.
  size_t mismatches = 0;        // Number of later recordings that differed from this one.

  std::mutex backward_mutex;
  std::optional<RecordedBackward> backward;
  std::atomic<bool> backward_failed{false};                                  // The program's own backward threw.
  std::shared_ptr<BackwardKinds> kinds = std::make_shared<BackwardKinds>();  // Shared with later recordings.
  std::vector<std::string> backward_obstacles;                               // Reasons why no joint graph can be built.
  bool backward_tried = false;

  bool needs_grad() const { return !differentiable_results.empty(); }
  capture::ProgramResults forward_results() const;
};

using KnownLeaves = std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>>;  // Leaves of autograd that earlier runs used.

// Runs `body` under the recorder. Its differentiable results get a node of ours as their history, so that the backward is recorded
// when it happens. Exceptions pass through.
std::shared_ptr<Recording> record_run(const detail::Leaves& in, const Options& options, KnownLeaves& known,
                                      const std::function<detail::RecordedResult()>& body);

}  // namespace tenon::driver
