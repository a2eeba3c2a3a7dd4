#include "build/built_graph.h"

#include "base/process.h"
#include "build/backends.h"
#include "build/build_error.h"
#include "capture/listener.h"
#include "planner/reuse.h"

namespace tenon::build {

std::shared_ptr<const Executable> BuiltGraph::at(const ir::SymbolValues& symbols) const {
  return with_build_errors(*parts_->graph, parts_->keeps_weights, [&] { return make_executable(symbols); });
}

std::shared_ptr<const Executable> BuiltGraph::make_executable(const ir::SymbolValues& symbols) const {
  auto interpret = [parts = parts_, symbols](const std::shared_ptr<const ir::Graph>& graph, ir::Reuse reuse) {
    return std::make_shared<const runtime::Interpreter>(graph, symbols, std::move(reuse), parts->resources, capture::keys_above_backends());
  };
  Executable::Parts out{.graph = parts_->graph, .native = parts_->native, .quarantine = parts_->quarantine};
  out.tuning_seconds = parts_->tuning_seconds;
  if (parts_->oracle) {
    auto oracle = interpret(parts_->oracle, planner::no_reuse(*parts_->oracle));
    out.verifier = std::make_shared<const ExecutableVerifier>(parts_->verify, std::move(oracle), parts_->quarantine);
  }
  out.op_by_op = std::make_shared<const LazyInterpreter>([parts = parts_, interpret] { return interpret(parts->graph, parts->reuse); });
  if (parts_->native) {
    NoForkScope scope;
    out.kernels = parts_->native->at(symbols);
  } else {
    out.custom = custom_runner(parts_->backend, out.op_by_op->get());
  }
  return std::make_shared<const Executable>(std::move(out));
}

}  // namespace tenon::build
