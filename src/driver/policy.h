// The numeric policy: when a result that eager computes otherwise is still right.
//   NaN, infinities and signs of zeros are where eager, or its run in f64, has them; integers and bools
//   are equal, but for comparisons that a unit in the last place of an intermediate result decides.
//   The error against a run in f64 is at most 1.25 times eager's own (root of the mean square), plus
//   one unit in the last place of the largest element (two where there are few); and no element is off by more than 8 times
//   eager's worst error or 4 units. The errors of a few elements are a matter of chance: those of
//   several runs are taken together, and eager's count for no less than those of a run in f64 with
//   noise of a unit in the last place on every intermediate result.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace tenon::driver {

// One result of one run. `noisy` may be undefined.
struct Sample {
  at::Tensor got, eager, truth, noisy;
};

// Elements below which one run does not tell.
inline constexpr int64_t kFewElements = 1024;
inline constexpr int kRuns = 32;  // then tell

// What ATen itself gives now in this way, now in that.
struct Leeway {
  bool zeros = false;       // their signs
  bool infinities = false;  // or NaN
};

// What is wrong, in words, or nothing.
std::string violation(const std::vector<Sample>& samples, const Leeway& leeway);

}  // namespace tenon::driver
