// Internal errors while a graph is built: how the user is told, and a file that reproduces the error.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "base/error.h"
#include "tenon/compile.h"

namespace tenon::driver {

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
