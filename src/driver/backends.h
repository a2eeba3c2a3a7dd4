// Backends by name. Each builds an Executable from a verified graph.
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
  // Every node is a call of ATen if `kernels` is null and `custom`, the runner of a registered backend, is empty.
  Executable(std::shared_ptr<const runtime::Interpreter> op_by_op, std::shared_ptr<const runtime::Interpreter> kernels, Runner custom,
             std::shared_ptr<const ExecutableVerifier> verifier, std::shared_ptr<const Quarantine> quarantine,
             std::vector<passes::PassRun> passes, std::vector<Explanation::Kernel> notes, std::vector<Explanation::Call> aten_calls,
             double tuning_seconds)
      : op_by_op_(std::move(op_by_op)),
        kernels_(std::move(kernels)),
        custom_(std::move(custom)),
        verifier_(std::move(verifier)),
        quarantine_(std::move(quarantine)),
        passes_(std::move(passes)),
        notes_(std::move(notes)),
        aten_calls_(std::move(aten_calls)),
        tuning_seconds_(tuning_seconds) {}

  // `scalars` has one element per scalar of the graph; if empty, the recorded scalars are used.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, runtime::RunMode mode, c10::ArrayRef<double> scalars = {}) const;
  const ir::Graph& graph() const { return op_by_op_->graph(); }
  // The passes that ran on the graph; empty for backends without passes.
  const std::vector<passes::PassRun>& passes() const { return passes_; }
  // The kernels of backend `native`, and the ops that it runs in ATen.
  std::vector<Explanation::Kernel> kernels() const;
  const std::vector<Explanation::Call>& aten_calls() const { return aten_calls_; }
  size_t arena_bytes() const { return kernels_ ? static_cast<size_t>(kernels_->arena_bytes()) : 0; }
  // The interpreter, if a run needs nothing else (no verification, quarantine or tuning); otherwise null.
  const runtime::Interpreter* direct() const {
    bool needs_more = verifier_ || quarantine_->is_on() || (tuning_seconds_ > 0 && !is_tuned_);
    return needs_more ? nullptr : kernels_.get();
  }
  // The flat plan, if there is one and a run needs nothing else; otherwise null.
  const runtime::FlatPlan* flat() const { return kernels_ && !verifier_ && !quarantine_->is_on() ? kernels_->flat() : nullptr; }
  // The report of the quarantine; empty if there is none.
  std::string quarantine() const { return quarantine_->report(); }

 private:
  std::vector<at::Tensor> run_kernels(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) const;

  std::shared_ptr<const runtime::Interpreter> op_by_op_;
  std::shared_ptr<const runtime::Interpreter> kernels_;
  Runner custom_;
  std::shared_ptr<const ExecutableVerifier> verifier_;
  std::shared_ptr<const Quarantine> quarantine_;
  std::vector<passes::PassRun> passes_;
  std::vector<Explanation::Kernel> notes_;
  std::vector<Explanation::Call> aten_calls_;
  double tuning_seconds_;  // Time that the first run may spend on tuning; 0 for no tuning.
  mutable std::atomic<bool> is_tuned_{false};
  mutable std::atomic<size_t> runs_{0};
};

enum class BackendKind : uint8_t {
  none,    // The program runs as it is.
  graphs,  // Forward and backward graphs are built.
};

// Throws UserError(backend) for an unregistered name.
BackendKind backend_kind(const std::string& name);
// `keeps_weights`: the weights that the graph reads are not trained.
// Throws BuildError with the graph for a fault of Tenon, UserError for a fault of the caller's backend or settings.
std::shared_ptr<const Executable> build(const Options& options, const ir::Graph& graph, const std::vector<c10::IValue>& resources,
                                        bool keeps_weights);

}  // namespace tenon::driver
