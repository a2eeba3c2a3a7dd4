#pragma once

#include <functional>

#include "random_programs/random_program.h"

namespace tenon::random_programs {

// Returns the smallest program found that still fails. Removes steps, outputs and inputs one at a time.
RandomProgram minimise(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails);

}  // namespace tenon::random_programs
