// The graph breaks that a function has met. A call keeps return addresses only; source lines are found when somebody asks.
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
  // With source lines; breaks of one op on one line are one.
  std::vector<Explanation::Break> list() const;

 private:
  struct Site {
    std::string what, instead;
    size_t count = 0;
    size_t first = 0;  // its place among all
  };
  std::map<std::pair<std::string, std::vector<void*>>, Site> sites_;  // by op and return addresses
};

}  // namespace tenon::driver
