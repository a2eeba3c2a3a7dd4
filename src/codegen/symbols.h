// Library functions that kernels may call.
#pragma once

#include <string>

namespace tenon::codegen {

// Returns the address of a function, or null. Our own functions come first, then those of the process
// (libtorch's Sleef, libm).
void* find_function(const std::string& name);

}  // namespace tenon::codegen
