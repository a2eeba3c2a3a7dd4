// The warning of a function that has reached its recompile_limit: which guard kept failing, and what to do about it.
#pragma once

#include <atomic>
#include <vector>

#include "tenon/inspect.h"

namespace tenon::driver {

class RecompileLimit {
 public:
  // Warns at the first call that matches no recording and may not be recorded. `last` is the difference between this call and the
  // recordings.
  void reached(const Options& options, const std::vector<Explanation::Recompile>& recompiles, const Explanation::Recompile& last);

 private:
  std::atomic<bool> has_warned_{false};
};

}  // namespace tenon::driver
