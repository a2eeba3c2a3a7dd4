// Timing on a noisy machine: CPU time, rounds of alternating variants, medians.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

namespace tenon::bench {

// CPU time of the calling thread, or with CLOCK_PROCESS_CPUTIME_ID of all threads of the process.
inline double cpu_seconds(clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline double median(std::vector<double> list) {
  std::nth_element(list.begin(), list.begin() + static_cast<ptrdiff_t>(list.size() / 2), list.end());
  return list[list.size() / 2];
}

// Median seconds per call of each variant. Variants alternate within a round, and each round begins with
// another one, so that no variant always runs after the same neighbour.
inline std::vector<double> side_by_side(const std::vector<std::function<void()>>& variants, int rounds, int calls) {
  std::vector<std::vector<double>> times(variants.size());
  for (int round = -2; round < rounds; ++round)
    for (size_t k = 0; k < variants.size(); ++k) {
      size_t v = (k + static_cast<size_t>(round + 2)) % variants.size();
      double start = cpu_seconds();
      for (int i = 0; i < calls; ++i) variants[v]();
      if (round >= 0) times[v].push_back((cpu_seconds() - start) / calls);
    }
  std::vector<double> medians;
  for (auto& list : times) medians.push_back(median(std::move(list)));
  return medians;
}

// Prints one result as JSON.
inline void report(const char* name, double figure, const char* unit, double eager, double ours) {
  std::printf("{\"name\": \"%s\", \"figure\": %.4f, \"unit\": \"%s\", \"eager_us\": %.3f, \"ours_us\": %.3f}\n", name, figure, unit,
              eager * 1e6, ours * 1e6);
  std::fflush(stdout);
}

}  // namespace tenon::bench
