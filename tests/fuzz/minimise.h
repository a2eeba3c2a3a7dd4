#pragma once

#include <functional>

#include "fuzz/random_program.h"

namespace tenon::fuzz {

// The smallest program found that still fails: steps, outputs and inputs are taken away one by one.
RandomProgram minimise(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails);

}  // namespace tenon::fuzz
