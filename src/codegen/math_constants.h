// Constants that more than one file of formulas uses.
#pragma once

#include <limits>

namespace tenon::codegen {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kLog2E = 1.4426950408889634;

}  // namespace tenon::codegen
