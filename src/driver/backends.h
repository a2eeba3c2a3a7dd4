// Backends by name. Each turns a verified graph into an Executable.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "capture/functionalize.h"
#include "driver/verify.h"
#include "passes/runner.h"
#include "runtime/interpreter.h"
#include "tenon/compile.h"
#include "tenon/inspect.h"

namespace tenon::driver {

class Executable {
 public:
  // `kernels` may be null, `own` empty: then every node is a call of ATen.
  Executable(std::shared_ptr<const runtime::Interpreter> op_by_op, std::shared_ptr<const runtime::Interpreter> kernels, Runner own,
             std::shared_ptr<const Verifier> verifier, std::shared_ptr<const Quarantine> quarantine, std::vector<passes::PassRun> passes,
             std::vector<Explanation::Kernel> notes, std::vector<Explanation::Call> left, double tuning_seconds)
      : op_by_op_(std::move(op_by_op)),
        kernels_(std::move(kernels)),
        own_(std::move(own)),
        verifier_(std::move(verifier)),
        quarantine_(std::move(quarantine)),
        passes_(std::move(passes)),
        notes_(std::move(notes)),
        left_(std::move(left)),
        tuning_seconds_(tuning_seconds) {}

  // `scalars`: one per scalar of the graph, or none for the recorded ones.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, runtime::RunMode mode, c10::ArrayRef<double> scalars = {}) const;
  const ir::Graph& graph() const { return op_by_op_->graph(); }
  // What the passes did to the graph; empty where none ran.
  const std::vector<passes::PassRun>& passes() const { return passes_; }
  // What `native` made of it.
  std::vector<Explanation::Kernel> kernels() const;
  const std::vector<Explanation::Call>& left() const { return left_; }
  size_t arena_bytes() const { return kernels_ ? static_cast<size_t>(kernels_->arena_bytes()) : 0; }
  // All that a run is, or null if it is more; so is the other.
  const runtime::Interpreter* direct() const {
    bool is_more = verifier_ || quarantine_->is_on() || (tuning_seconds_ > 0 && !is_tuned_);
    return is_more ? nullptr : kernels_.get();
  }
  const runtime::FlatPlan* flat() const { return kernels_ && !verifier_ && !quarantine_->is_on() ? kernels_->flat() : nullptr; }
  // Why it does not serve any more, or nothing.
  std::string quarantine() const { return quarantine_->report(); }

 private:
  std::vector<at::Tensor> run_kernels(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) const;

  std::shared_ptr<const runtime::Interpreter> op_by_op_;
  std::shared_ptr<const runtime::Interpreter> kernels_;
  Runner own_;
  std::shared_ptr<const Verifier> verifier_;
  std::shared_ptr<const Quarantine> quarantine_;
  std::vector<passes::PassRun> passes_;
  std::vector<Explanation::Kernel> notes_;
  std::vector<Explanation::Call> left_;
  double tuning_seconds_;  // of its first run, or 0
  mutable std::atomic<bool> is_tuned_{false};
  mutable std::atomic<size_t> runs_{0};
};

enum class BackendKind : uint8_t {
  none,    // the program itself
  graphs,  // forward and backward graphs
};

// Throws UserError(backend) for a name that nobody registered.
BackendKind backend_kind(const std::string& name);
// `keeps_weights`: nobody trains what the graph reads.
// Throws BuildError with the graph for a fault of ours, UserError for one of the caller's backend or settings.
std::shared_ptr<const Executable> build(const Options& options, const ir::Graph& graph, const std::vector<c10::IValue>& resources,
                                        bool keeps_weights);

}  // namespace tenon::driver
