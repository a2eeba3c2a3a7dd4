// A variant: the graphs and executables built from one recording, and how they serve a call.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "build/pipeline.h"
#include "driver/recording.h"

namespace tenon::driver {

// Forward and backward graphs of a recording whose backward is known.
struct Joint {
  build::JointProgram program;
  size_t forward_results = 0;
  std::vector<bool> tangent_defined;
  std::vector<bool> gradient_requires_grad;
  std::vector<capture::Geometry> tangents;
};

struct Variant {
  explicit Variant(std::shared_ptr<Recording> r)
      : recording(std::move(r)), externals(recording->tape().externals), guards(recording->guards) {}

  std::shared_ptr<Recording> recording;
  std::vector<capture::External> externals;  // A copy, because a backward that is recorded later adds externals to the tape.
  capture::Guards guards;
  build::Program forward;  // The forward alone.
  std::unique_ptr<Joint> joint;
  bool autograd_runs = false;  // Autograd over the forward graph gives the program's gradients.
  bool can_rerun = false;      // The forward may run a second time under autograd to compute gradients.
  bool is_random = false;      // A second run, by autograd or by the program, must draw the random numbers of the first one.
  bool use_autograd = false;   // The backend is `eager`.
  std::shared_ptr<const runtime::Interpreter> rerun;
  std::vector<std::shared_ptr<const runtime::Interpreter>> views;  // One per result: computes the view of its external.
  std::vector<int32_t> replaced_gradients;  // Externals whose old .grad the graph does not use, and which get a new one.
  std::vector<bool> backward_reads;         // One per external: whether the autograd node must save it. If empty, it must save all.
  bool is_direct = false;                   // Inputs are externals, results are the graph's outputs, and there are no other effects.
  mutable std::atomic<size_t> served_calls{0};
  mutable std::atomic<bool> wants_backward{false};    // An unrecorded backward was requested.
  mutable std::atomic<size_t> failed_comparisons{0};  // Number of calls in which an aten::equal gave another result than recorded.

  std::vector<std::shared_ptr<const build::Executable>> executables() const;

  // Whether it may serve a call, given the gradients that may be requested.
  bool may_serve() const;
  // The reason why calls run eagerly: gradients are taken that no graph can serve. Empty if there is none.
  std::string eager_reason() const;
};

// Whether a recording's forward, run a second time under autograd, gives the program's gradients.
bool can_run_again(Recording& recording);

// Builds the graphs. On an obstacle returns nullptr and adds to `obstacles`.
std::shared_ptr<Variant> make_variant(const std::shared_ptr<Recording>& recording, const Options& options, build::Phases& phases,
                                      std::vector<std::string>& obstacles);

// The result has no prototype if an aten::equal of the program gave another result than recorded, or if an op failed behind one. Nothing
// has changed then, and the program must run.
detail::GraphResult run_variant(const std::shared_ptr<const Variant>& variant, const detail::Leaves& in);

// The tensors for a graph's inputs.
std::vector<at::Tensor> bind_inputs(const std::vector<capture::InputBinding>& bindings, const std::vector<at::Tensor>& externals);
// The tensor of a result. For a result that is an external, this is a new handle without history.
at::Tensor bind_result(const capture::ResultBinding& binding, const std::vector<at::Tensor>& outputs,
                       const std::vector<at::Tensor>& externals, const std::vector<capture::External>& recorded);

}  // namespace tenon::driver
