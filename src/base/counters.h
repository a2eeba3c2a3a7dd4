// Counters of the process, returned by tenon::stats().
#pragma once

#include <atomic>
#include <cstddef>

namespace tenon {

struct ProcessCounters {
  std::atomic<size_t> calls{0}, served{0}, replayed{0}, recorded{0}, plain{0}, graphs{0}, flushes{0}, verified{0}, quarantined{0},
      internal_errors{0};
};

inline ProcessCounters& counters() {
  static ProcessCounters all;
  return all;
}

}  // namespace tenon
