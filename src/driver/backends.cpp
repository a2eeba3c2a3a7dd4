#include "driver/backends.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/flags.h"
#include "bridge/convert.h"
#include "capture/listener.h"
#include "driver/graphs.h"
#include "driver/internal_errors.h"
#include "driver/native.h"
#include "driver/stats.h"
#include "ir/graph/print.h"
#include "planner/reuse.h"
#include "runtime/tuner.h"

namespace tenon {
namespace {

struct BackendRegistry {
  std::mutex mutex;
  std::map<std::string, Backend> registered;
};

BackendRegistry& registry() {
  static BackendRegistry* r = new BackendRegistry;
  return *r;
}

const std::vector<std::string>& built_in() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"none", "eager", "aot_eager", "aten"};
    if (driver::has_native()) all.push_back("native");
    return all;
  }();
  return names;
}

bool is_built_in(const std::string& name) { return std::count(built_in().begin(), built_in().end(), name) > 0; }

}  // namespace

void register_backend(const std::string& name, Backend backend) {
  BackendRegistry& r = registry();
  std::lock_guard lock(r.mutex);
  if (is_built_in(name) || !r.registered.emplace(name, std::move(backend)).second)
    throw UserError(ErrorCode::backend, "a backend named '" + name + "' exists already; choose another name");
}

std::vector<std::string> backends() {
  BackendRegistry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<std::string> names = built_in();
  for (auto& [name, backend] : r.registered) names.push_back(name);
  return names;
}

namespace driver {
namespace {

std::vector<at::Tensor> run_op_by_op(const runtime::Interpreter& interpreter, std::vector<at::Tensor> inputs) {
  c10::ArrayRef<double> scalars;
  at::Tensor scalar_tensor;
  if (!interpreter.graph().scalars.empty()) {
    scalar_tensor = std::move(inputs.back());
    inputs.pop_back();
    scalars = {scalar_tensor.const_data_ptr<double>(), static_cast<size_t>(scalar_tensor.numel())};
  }
  return interpreter.run(std::move(inputs), runtime::RunMode::kernels, scalars);
}

// TENON_MODE sets the mode of programs that set none.
Mode mode_of(const Options& options) {
  static const char* wanted = flag_text(Flag::mode);
  if (!wanted || options.mode != Mode::standard) return options.mode;
  if (wanted == std::string("reduce_overhead")) return Mode::reduce_overhead;
  if (wanted == std::string("max_autotune")) return Mode::max_autotune;
  throw UserError(ErrorCode::backend,
                  "TENON_MODE=" + std::string(wanted) + " is not a mode; set reduce_overhead or max_autotune, or unset it");
}

}  // namespace

std::vector<at::Tensor> Executable::run(std::vector<at::Tensor> inputs, runtime::RunMode mode, c10::ArrayRef<double> scalars) const {
  if (mode != runtime::RunMode::kernels) return op_by_op_->run(std::move(inputs), mode, scalars);
  if (quarantine_->is_on())
    return verifier_ ? verifier_->run_oracle(std::move(inputs), scalars) : op_by_op_->run(std::move(inputs), mode, scalars);
  if (!verifier_ || !verifier_->is_due(runs_++)) return run_kernels(std::move(inputs), scalars);
  return verifier_->compare(std::move(inputs), scalars, [&](std::vector<at::Tensor> in) { return run_kernels(std::move(in), scalars); });
}

std::vector<at::Tensor> Executable::run_kernels(std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) const {
  if (kernels_ && tuning_seconds_ > 0 && !is_tuned_.exchange(true)) tune(*kernels_, inputs, scalars, tuning_seconds_);
  if (kernels_) return kernels_->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  if (!custom_) return op_by_op_->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  if (scalars.empty()) scalars = graph().scalars;
  if (!scalars.empty()) {
    at::Tensor scalar_tensor = bridge::empty_of({ir::DType::f64, {static_cast<int64_t>(scalars.size())}, {1}});
    std::copy(scalars.begin(), scalars.end(), scalar_tensor.mutable_data_ptr<double>());
    inputs.push_back(std::move(scalar_tensor));
  }
  return custom_(std::move(inputs));
}

std::vector<Explanation::Kernel> Executable::kernels() const {
  std::vector<Explanation::Kernel> out = notes_;
  for (size_t i = 0; i < out.size(); ++i) {
    const runtime::KernelStep& step = kernels_->kernels()[i];
    if (step.product) out[i].call += ", " + step.product->describe();
    else if (*step.code > 0) out[i].name += ", " + step.codes[*step.code].name;
  }
  return out;
}

BackendKind backend_kind(const std::string& name) {
  if (name == "none") return BackendKind::none;
  if (is_built_in(name) || name == "native") return BackendKind::graphs;
  BackendRegistry& r = registry();
  std::lock_guard lock(r.mutex);
  if (r.registered.count(name)) return BackendKind::graphs;
  std::string known;
  for (const std::string& other : built_in()) known += (known.empty() ? "" : ", ") + other;
  for (auto& [other, backend] : r.registered) known += ", " + other;
  throw UserError(ErrorCode::backend, "no backend is named '" + name + "'; use one of: " + known);
}

namespace {

// The runner that a registered backend makes for the graph; empty for built-in backends.
Runner custom_runner(const std::string& name, const std::shared_ptr<const runtime::Interpreter>& op_by_op) {
  BackendRegistry& r = registry();
  std::unique_lock lock(r.mutex);
  auto it = r.registered.find(name);
  if (it == r.registered.end()) return {};
  Backend make = it->second;
  lock.unlock();
  try {
    return make(ir::print(op_by_op->graph()),
                [op_by_op](std::vector<at::Tensor> inputs) { return run_op_by_op(*op_by_op, std::move(inputs)); });
  } catch (const std::exception& error) {
    throw UserError(ErrorCode::backend, "backend '" + name + "' failed: " + error.what());
  }
}

std::shared_ptr<const Executable> build_executable(const Options& options, ir::Graph graph, const std::vector<c10::IValue>& resources,
                                                   bool keeps_weights) {
  ++counters().graphs;
  auto off = capture::keys_above_backends();
  bool native = options.backend == "native" && has_native(), passed = options.backend == "native" || options.backend == "aten";
  auto quarantine = std::make_shared<Quarantine>();
  std::shared_ptr<const ExecutableVerifier> verifier;
  if (options.verify > 0 && !native)
    verifier = std::make_shared<const ExecutableVerifier>(
        options.verify, std::make_shared<const runtime::Interpreter>(graph, planner::no_reuse(graph), resources, off), quarantine);
  std::vector<passes::PassRun> passes;
  if (passed) {
    passes = passes::run_all(graph);
    check_text(graph);
  }
  // Backend `eager` copies every in-place operand, so that a wrong result which disappears with it is a fault of the planner. A wrong
  // result which appears with `aten` is a fault of the passes.
  ir::Reuse reuse = options.backend == "eager" ? planner::no_reuse(graph) : planner::plan_reuse(graph);
  Native fused;
  std::shared_ptr<const runtime::Interpreter> kernels;
  Mode mode = mode_of(options);
  bool is_tuned = native && mode == Mode::max_autotune && keeps_weights && runtime::is_repeatable(graph);
  double tuning_seconds = is_tuned ? options.tuning_seconds : 0;
  if (native) {
    fused = make_native(graph, {options.verify, keeps_weights, tuning_seconds > 0}, quarantine);
    kernels = interpret(fused, resources, mode != Mode::standard);
  }
  auto op_by_op = std::make_shared<const runtime::Interpreter>(std::move(graph), std::move(reuse), resources, off);
  Runner custom = custom_runner(options.backend, op_by_op);
  return std::make_shared<const Executable>(std::move(op_by_op), std::move(kernels), std::move(custom), std::move(verifier),
                                            std::move(quarantine), std::move(passes), std::move(fused.notes), std::move(fused.aten_calls),
                                            tuning_seconds);
}

}  // namespace

std::shared_ptr<const Executable> build(const Options& options, const ir::Graph& graph, const std::vector<c10::IValue>& resources,
                                        bool keeps_weights) {
  try {
    return build_executable(options, graph, resources, keeps_weights);
  } catch (const std::exception& error) {
    const auto* user = dynamic_cast<const UserError*>(&error);
    if (user && (user->code() == ErrorCode::backend || user->code() == ErrorCode::pass)) throw;
    throw BuildError(graph, keeps_weights, error.what());
  }
}

}  // namespace driver
}  // namespace tenon
