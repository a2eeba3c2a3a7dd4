// A failed build, with the graph as it was before the build.
#pragma once

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

}  // namespace tenon::build
