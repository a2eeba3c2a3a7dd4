// Internal errors while a graph is built: how the user is told, and a file that reproduces the error.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "base/error.h"
#include "ir/graph/graph.h"
#include "tenon/compile.h"

namespace tenon::driver {

// A failed build, with the graph as it was before the build.
class BuildError : public InternalError {
 public:
  BuildError(const ir::Graph& graph, bool keeps_weights, const std::string& why);
  const std::string& graph() const { return graph_; }      // Text of the graph.
  const std::string& name() const { return name_; }        // Name of the graph.
  const std::string& command() const { return command_; }  // Command that reproduces the error, without the name of the file.

 private:
  std::string graph_, name_, command_;
};

// The internal errors of one compiled function.
class InternalErrors {
 public:
  explicit InternalErrors(const Options& options) : options_(options) {}

  // Counts an exception that building a graph threw, and warns once. Returns the text for explain.
  std::string note(const std::exception& error);
  // Throws the noted error under OnInternalError::raise. Must be called where the program's state is complete.
  void raise();

 private:
  const Options& options_;
  std::mutex mutex_;
  bool has_warned_ = false;
  std::atomic<bool> is_pending_{false};
  std::string pending_;
};

}  // namespace tenon::driver
