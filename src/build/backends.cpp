#include "build/backends.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "build/code_cache.h"
#include "build/fixed_graph.h"
#include "ir/graph/print.h"

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
    if (build::has_native()) all.push_back("native");
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

namespace build {
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

}  // namespace

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

Runner custom_runner(const std::string& name, const std::shared_ptr<const runtime::Interpreter>& op_by_op) {
  BackendRegistry& r = registry();
  std::unique_lock lock(r.mutex);
  auto it = r.registered.find(name);
  if (it == r.registered.end()) return {};
  Backend make = it->second;
  lock.unlock();
  try {
    return make(ir::print(fixed_graph(op_by_op->graph(), op_by_op->symbols())),
                [op_by_op](std::vector<at::Tensor> inputs) { return run_op_by_op(*op_by_op, std::move(inputs)); });
  } catch (const std::exception& error) {
    throw UserError(ErrorCode::backend, "backend '" + name + "' failed: " + error.what());
  }
}

}  // namespace build
}  // namespace tenon
