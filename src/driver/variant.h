// A variant: one recording turned into graphs and executables, and how to answer a call with them.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "autodiff/partition.h"
#include "capture/functionalize.h"
#include "driver/backends.h"
#include "driver/phases.h"
#include "driver/recording.h"

namespace tenon::driver {

// Forward and backward graphs of a recording whose backward is known.
struct Joint {
  capture::Functional functional;
  size_t forward_results = 0;
  std::vector<capture::InputBinding> forward_inputs;
  std::vector<autodiff::BackwardInput> backward_inputs;
  std::shared_ptr<const Executable> forward, backward;
  std::vector<bool> tangent_defined;
  std::vector<bool> gradient_requires_grad;
  std::vector<capture::Geometry> tangents;
};

struct Variant {
  explicit Variant(std::shared_ptr<Recording> r)
      : recording(std::move(r)), externals(recording->tape().externals), guards(recording->guards) {}

  std::shared_ptr<Recording> recording;
  std::vector<capture::External> externals;  // a copy: a backward that is recorded later adds to the tape's
  capture::Guards guards;
  capture::Functional functional;  // of the forward alone
  std::shared_ptr<const Executable> forward;
  std::unique_ptr<Joint> joint;
  bool autograd_runs = false;  // autograd over the forward graph gives the program's gradients
  bool can_rerun = false;      // and the forward may run a second time for it
  bool is_random = false;      // with the random numbers of the first time
  bool use_autograd = false;   // the `eager` backend
  std::shared_ptr<const runtime::Interpreter> rerun;
  std::vector<std::shared_ptr<const runtime::Interpreter>> views;  // per result: takes it from its external
  std::vector<bool> backward_reads;                                // per external: what a node must hold; empty: all
  bool is_direct = false;  // its inputs are externals as they are, its results the graph's outputs, and it does nothing else
  mutable std::atomic<size_t> answered{0};
  mutable std::atomic<bool> wants_backward{false};  // a backward came that is not recorded

  std::vector<std::shared_ptr<const Executable>> executables() const;

  // May it answer when gradients are needed?
  bool ready() const;
  // Gradients are known to be taken in a way that it cannot serve: why the program runs itself. Empty if there are none.
  std::string left_to_program() const;
};

// Whether a recording's forward, run a second time under autograd, gives the program's gradients.
bool can_run_again(Recording& recording);

// Builds the graphs. On an obstacle returns nullptr and adds to `obstacles`.
std::shared_ptr<Variant> make_variant(const std::shared_ptr<Recording>& recording, const Options& options, Phases& phases,
                                      std::vector<std::string>& obstacles);

detail::Answer run_variant(const std::shared_ptr<const Variant>& variant, const detail::Leaves& in);

// The tensors for a graph's inputs.
std::vector<at::Tensor> bind_inputs(const std::vector<capture::InputBinding>& bindings, const std::vector<at::Tensor>& externals);
// The tensor that a result stands for.
// (externals: a fresh handle without history).
at::Tensor bind_result(const capture::ResultBinding& binding, const std::vector<at::Tensor>& outputs,
                       const std::vector<at::Tensor>& externals, const std::vector<capture::External>& recorded);

}  // namespace tenon::driver
