// The numeric policy: when a result that eager computes otherwise is still right.
//   NaN, infinities and signs of zeros are where eager has them; integers and bools are equal.
//   The error against a run in f64 is at most 1.25 times eager's own (root of the mean square), plus
//   one unit in the last place of the largest element; and no element is off by more than 8 times
//   eager's worst error or 4 units.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace tenon::driver {

// What is wrong, in words, or nothing. `truth` may be undefined: then eager itself is the truth.
std::string violation(const at::Tensor& got, const at::Tensor& eager, const at::Tensor& truth);

}  // namespace tenon::driver
