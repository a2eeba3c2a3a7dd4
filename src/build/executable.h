// A graph that has been built, with one set of sizes: how it runs, and what explain says about it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "build/lazy_interpreter.h"
#include "build/native.h"
#include "build/verifier.h"
#include "runtime/interpreter.h"
#include "tenon/compile.h"
#include "tenon/inspect.h"

namespace tenon::build {

class Executable {
 public:
  struct Parts {
    std::shared_ptr<const ir::Graph> graph;               // The graph after the passes.
    std::shared_ptr<const LazyInterpreter> op_by_op;      // Every node is a call of ATen.
    std::shared_ptr<const NativeProgram> native;          // Null for other backends.
    std::shared_ptr<const runtime::Interpreter> kernels;  // The plan of `native`; null for other backends.
    Runner custom;                                        // The runner of a registered backend; may be empty.
    std::shared_ptr<const ExecutableVerifier> verifier;   // Null if nothing is compared, or if the kernels compare themselves.
    std::shared_ptr<Quarantine> quarantine;               // Shared by all sizes.
    double tuning_seconds = 0;                            // Time that the first run may spend on tuning; 0 for no tuning.
  };
  explicit Executable(Parts parts) : parts_(std::move(parts)) {}

  // `scalars` has one element per scalar of the graph; if empty, the recorded scalars are used.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, runtime::RunMode mode, c10::ArrayRef<double> scalars = {}) const;
  const ir::Graph& graph() const { return *parts_.graph; }
  // Frees the memory that Mode::reduce_overhead keeps for the next run.
  void release_kept_memory() const {
    if (interpreter()) interpreter()->release_kept_memory();
  }
  // The kernels of backend `native` in the order in which they run, and the ops that it runs in ATen.
  std::vector<Explanation::Kernel> kernels() const;
  const std::vector<Explanation::Call>& aten_calls() const;
  size_t arena_bytes() const { return interpreter() ? static_cast<size_t>(interpreter()->arena_bytes()) : 0; }
  // The interpreter, if a run needs nothing else (no verification, quarantine or tuning); otherwise null.
  const runtime::Interpreter* direct() const {
    bool needs_more = parts_.verifier || parts_.quarantine->is_on() || (parts_.tuning_seconds > 0 && !is_tuned_);
    return needs_more ? nullptr : interpreter();
  }
  // The flat plan, if there is one and a run needs nothing else; otherwise null.
  const runtime::FlatPlan* flat() const {
    return interpreter() && !parts_.verifier && !parts_.quarantine->is_on() ? interpreter()->flat() : nullptr;
  }
  // The report of the quarantine; empty if there is none.
  std::string quarantine() const { return parts_.quarantine->report(); }

 private:
  const runtime::Interpreter* interpreter() const { return parts_.kernels.get(); }
  std::vector<at::Tensor> run_kernels(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) const;

  Parts parts_;
  mutable std::atomic<bool> is_tuned_{false};
  mutable std::atomic<size_t> runs_{0};
};

}  // namespace tenon::build
