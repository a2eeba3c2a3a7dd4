// The warning of a function that has reached its recompile_limit: what kept differing, and what to do about it.
#pragma once

#include <atomic>
#include <vector>

#include "tenon/inspect.h"

namespace tenon::driver {

class RecompileLimit {
 public:
  // A call fits no recording and may not be recorded; `last` is where it differs from what is known. Only the first such call of
  // a function is told.
  void reached(const Options& options, const std::vector<Explanation::Recompile>& recompiles, const Explanation::Recompile& last);

 private:
  std::atomic<bool> has_warned_{false};
};

}  // namespace tenon::driver
