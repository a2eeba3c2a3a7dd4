#include "build/build_error.h"

#include "ir/graph/print.h"

namespace tenon::build {

BuildError::BuildError(const ir::Graph& graph, bool keeps_weights, const std::string& why)
    : InternalError(why),
      graph_(ir::print(graph)),
      name_(graph.name),
      command_(std::string("tenon-opt --all --kernels") + (keeps_weights ? " --keeps-weights" : "")) {}

void rethrow_build_error(const ir::Graph& graph, bool keeps_weights, const std::exception& error) {
  const auto* user = dynamic_cast<const UserError*>(&error);
  if (user && (user->code() == ErrorCode::backend || user->code() == ErrorCode::pass)) throw;
  throw BuildError(graph, keeps_weights, error.what());
}

}  // namespace tenon::build
