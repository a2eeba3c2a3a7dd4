// Parses a kernel. Throws UserError(parse) with line and column; the result still has to be verified.
#pragma once

#include <string>

#include "ir/loop/loop.h"

namespace tenon::ir::loop {

LoopKernel parse_kernel(const std::string& text);

}  // namespace tenon::ir::loop
