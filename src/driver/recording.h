// One recorded run of a program: its tape, its guards, what it left behind, and, once autograd has
// come back through it, its backward.
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
#include "tenon/compile.h"

namespace tenon::driver {

struct ResultInfo {
  capture::TensorRef ref;
  int32_t same_as_external = -1;  // the very tensor object that came in
  int32_t same_as_result = -1;    // the very tensor object of an earlier result
  bool requires_grad = false;
  bool inference = false;
};

struct GradientEffect {
  int32_t external = 0;  // the leaf whose .grad changed
  int32_t result = -1;   // index into Recording::extra, or -1: it became undefined
};

struct RecordedBackward {
  size_t first_op = 0;
  std::vector<bool> tangent_defined;          // per differentiable result
  std::vector<capture::TensorRef> tangents;   // of the defined ones
  std::vector<capture::TensorRef> gradients;  // per differentiable external
};

// How the results of calls with the same guards have been differentiated so far, beyond what the first recorded backward did.
struct BackwardKinds {
  std::atomic<bool> create_graph{false};
  std::atomic<bool> other_outputs{false};  // another set of results had gradients
};

struct Recording {
  Recording(const detail::Leaves& in, capture::WatchedValues watched, capture::RecordOptions options)
      : recorder(options), guards(in, std::move(watched)), settings(capture::Settings::now()) {}

  capture::Tape& tape() { return recorder.tape(); }

  capture::Recorder recorder;
  capture::Guards guards;
  capture::Settings settings;
  std::shared_ptr<const std::any> prototype;
  std::vector<ResultInfo> results;
  std::vector<capture::TensorRef> extra;  // new gradients
  std::vector<GradientEffect> gradient_effects;
  std::vector<at::Tensor> held;  // per external: a strong handle; undefined if by position
  std::vector<int32_t> differentiable_externals;
  std::vector<int32_t> differentiable_results;  // those that need an autograd node of ours
  std::vector<std::string> obstacles;           // why no graph can answer for the program
  std::vector<std::string> autograd_obstacles;  // why the graph cannot run under autograd instead
  std::vector<int64_t> version_bumps;           // per external of the run
  bool touches_gradients = false;
  bool new_leaves = false;      // met leaves of autograd that were not known when it started
  bool spent = false;           // the results were differentiated inside
  bool differentiates = false;  // autograd ran inside
  bool inference = false;       // results were made in inference mode inside
  capture::TapeLength forward;  // what of the tape is the run itself; the rest is its backward
  size_t mismatches = 0;        // recordings since that did not agree

  std::mutex backward_mutex;
  std::optional<RecordedBackward> backward;
  std::atomic<bool> backward_failed{false};                                  // the program's own backward threw
  std::shared_ptr<BackwardKinds> kinds = std::make_shared<BackwardKinds>();  // handed on to later recordings
  std::vector<std::string> backward_obstacles;                               // why no joint graph could be made of it
  bool backward_tried = false;

  bool needs_grad() const { return !differentiable_results.empty(); }
  capture::ProgramResults forward_results() const;
};

using Known = std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>>;  // leaves met in earlier runs

// Runs `body` under the recorder. Its results are replaced by ones that lead autograd through a
// node of ours, so that the backward is recorded when it happens. Exceptions pass through.
std::shared_ptr<Recording> record_run(const detail::Leaves& in, const Options& options, Known& known,
                                      const std::function<detail::Outcome()>& body);

}  // namespace tenon::driver
