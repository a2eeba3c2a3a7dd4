// A failed build, with the graph as it was before the build.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"
#include "ir/graph/graph.h"

namespace tenon::build {

class BuildError : public InternalError {
 public:
  BuildError(const ir::Graph& graph, bool keeps_weights, const std::string& why);
  const std::string& graph() const { return graph_; }      // Text of the graph.
  const std::string& name() const { return name_; }        // Name of the graph.
  const std::string& command() const { return command_; }  // Command that reproduces the error, without the name of the file.

 private:
  std::string graph_, name_, command_;
};

// Throws the error that is being handled: as it is if the caller's backend or settings are at fault, otherwise as BuildError.
[[noreturn]] void rethrow_build_error(const ir::Graph& graph, bool keeps_weights, const std::exception& error);

// Calls a stage of the build, with its errors as above.
template <class F>
auto with_build_errors(const ir::Graph& graph, bool keeps_weights, F&& stage) {
  try {
    return stage();
  } catch (const std::exception& error) {
    rethrow_build_error(graph, keeps_weights, error);
  }
}

}  // namespace tenon::build
