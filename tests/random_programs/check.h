// Runs a program eagerly and through tenon::compile, and compares the outcomes.
#pragma once

#include <string>
#include <vector>

#include "random_programs/random_program.h"

namespace tenon::random_programs {

struct Verdict {
  std::string kind;        // Kind of the first difference: result, input, gradient, ...; empty if there is none.
  std::string difference;  // Description of the first difference.
  bool unstable = false;   // Eager runs differ from each other, so the comparison is inconclusive.
  bool served = false;     // A graph served at least one call.
  std::string explanation;
  std::vector<std::string> obstacles;

  bool wrong() const { return !kind.empty() && !unstable; }
};

// `configuration` is a backend, optionally followed by ":pure".
Verdict check(const RandomProgram& program, const std::string& configuration);

}  // namespace tenon::random_programs
