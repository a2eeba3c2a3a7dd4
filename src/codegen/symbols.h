// Functions outside a kernel that its code may call.
#pragma once

#include <string>

namespace tenon::codegen {

// The address of a function of this name, or null: functions of lanes.def first, then what the
// process has (libtorch's Sleef, libm).
void* find_function(const std::string& name);

}  // namespace tenon::codegen
