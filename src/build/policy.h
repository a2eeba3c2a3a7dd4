// The numeric policy: which differences from eager's result are allowed.
//   NaN, infinities and signs of zeros are where eager, or its run in f64, has them. Integers and bools
//   are equal, except comparisons whose result depends on one ulp of an intermediate value.
//   The RMS error against a run in f64 is at most 1.25 × eager's, plus one ulp of the largest element (two ulps for small results).
//   No element is off by more than 8 × eager's largest error or 4 ulps, whichever is larger.
//   The error of a small result depends on chance. Therefore several runs are judged together, and eager's error counts as at least
//   that of a run in f64 with noise of one ulp on every intermediate value.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace tenon::build {

// One result of one run, computed in four ways. `noisy` may be undefined.
struct Comparison {
  at::Tensor got, eager, truth, noisy;
};

// The error of a result with fewer elements is judged over several runs.
inline constexpr int64_t kMinElementsForOneRun = 1024;
inline constexpr int kRunsForFewElements = 32;

// Differences that are allowed because ATen's own result varies from run to run or from size to size.
struct Leeway {
  bool zeros = false;       // The sign of a zero may differ.
  bool infinities = false;  // Infinities and NaN are interchangeable.
};

// A description of the first violation; empty if there is none.
std::string violation(const std::vector<Comparison>& comparisons, const Leeway& leeway);

}  // namespace tenon::build
