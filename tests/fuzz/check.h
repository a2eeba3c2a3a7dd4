// Runs a program eagerly and through tenon::compile, side by side.
#pragma once

#include <string>
#include <vector>

#include "fuzz/random_program.h"

namespace tenon::fuzz {

inline constexpr int kCalls = 5;

struct Verdict {
  std::string kind;        // of the first difference: result, input, gradient, ...; empty: none
  std::string difference;  // in words
  bool unstable = false;   // eager does not agree with itself: says nothing
  bool answered = false;   // by a graph, at least once
  std::string explanation;
  std::vector<std::string> obstacles;

  bool wrong() const { return !kind.empty() && !unstable; }
};

Verdict check(const RandomProgram& program, const std::string& way);

}  // namespace tenon::fuzz
