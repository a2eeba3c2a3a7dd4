// Why a function was recorded or built again, and the warning once its recompile_limit is reached. A call stores return addresses only;
// source lines are looked up by list().
#pragma once

#include <string>
#include <vector>

#include "tenon/inspect.h"

namespace tenon::driver {

class Recompiles {
 public:
  // `frames` are the return addresses of the program at the difference.
  void note(const std::string& guard, const std::string& detail, std::vector<void*> frames);
  // Warns at the first call that fits no recording and may not be recorded. The arguments say how this call differs from the recordings.
  void warn_of_limit(const Options& options, const std::string& guard, const std::string& detail);
  // The reasons with source lines.
  std::vector<Explanation::Recompile> list() const;

 private:
  struct Entry {
    std::string guard, detail;
    std::vector<void*> frames;
  };
  std::vector<Entry> entries_;
  bool has_warned_ = false;
};

}  // namespace tenon::driver
