// The version of these headers, and of the library that the program has loaded.
#pragma once

#include <tenon/export.h>

#define TENON_VERSION_MAJOR 0
#define TENON_VERSION_MINOR 1
#define TENON_VERSION_PATCH 0

namespace tenon {

// "major.minor.patch" of the loaded library. May be called from any thread.
TENON_API const char* version();

}  // namespace tenon
