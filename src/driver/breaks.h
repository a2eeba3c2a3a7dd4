// The graph breaks of a function. A call stores return addresses only; source lines are looked up by list().
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "capture/tape.h"
#include "tenon/inspect.h"

namespace tenon::driver {

class Breaks {
 public:
  void note(const capture::BreakEvent& event);
  // The breaks with source lines; breaks of the same op on the same line are merged.
  std::vector<Explanation::Break> list() const;

 private:
  struct Site {
    std::string what, instead;
    size_t count = 0;
    size_t order = 0;  // Index of the site in the order of first occurrence.
  };
  std::map<std::pair<std::string, std::vector<void*>>, Site> sites_;  // The key is the op and the return addresses.
};

}  // namespace tenon::driver
