// Backends by name. Each turns a verified graph into an Executable.
#pragma once

#include <memory>
#include <string>

#include "capture/functionalize.h"
#include "runtime/interpreter.h"
#include "tenon/compile.h"

namespace tenon::driver {

class Executable {
 public:
  Executable(std::shared_ptr<const runtime::Interpreter> op_by_op, Runner own) : op_by_op_(std::move(op_by_op)), own_(std::move(own)) {}

  // `scalars`: one per scalar of the graph, or none for the recorded ones.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, runtime::RunMode mode, c10::ArrayRef<double> scalars = {}) const;
  const ir::Graph& graph() const { return op_by_op_->graph(); }

 private:
  std::shared_ptr<const runtime::Interpreter> op_by_op_;
  Runner own_;
};

enum class BackendKind : uint8_t {
  none,    // the program itself
  graphs,  // forward and backward graphs
};

// Throws UserError(backend) for a name that nobody registered.
BackendKind backend_kind(const std::string& name);
std::shared_ptr<const Executable> build(const std::string& backend, ir::Graph graph, const std::vector<c10::IValue>& resources);

}  // namespace tenon::driver
