// Faults of Tenon's own while it builds a graph: what the user is told, and what reproduces them.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "base/error.h"
#include "ir/graph/graph.h"
#include "tenon/compile.h"

namespace tenon::driver {

// A failed build with the graph as it was before.
class BuildError : public InternalError {
 public:
  BuildError(const ir::Graph& graph, bool keeps_weights, const std::string& why);
  const std::string& graph() const { return graph_; }      // its text
  const std::string& name() const { return name_; }        // of the graph
  const std::string& command() const { return command_; }  // without the file's name

 private:
  std::string graph_, name_, command_;
};

// One for each compiled function.
class InternalErrors {
 public:
  explicit InternalErrors(const Options& options) : options_(options) {}

  // Takes what building a graph threw: counts it, and warns once. Returns the text for explain.
  std::string note(const std::exception& error);
  // Throws what was noted, under OnInternalError::raise. Called where the program's state is complete.
  void raise();

 private:
  const Options& options_;
  std::mutex mutex_;
  bool has_warned_ = false;
  std::atomic<bool> is_pending_{false};
  std::string pending_;
};

}  // namespace tenon::driver
