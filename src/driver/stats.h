// Counters of the process, behind tenon::stats().
#pragma once

#include <atomic>
#include <cstddef>

namespace tenon::driver {

struct Counters {
  std::atomic<size_t> calls{0}, answered{0}, replayed{0}, recorded{0}, plain{0}, graphs{0}, flushes{0}, verified{0}, quarantined{0},
      internal_errors{0};
};

Counters& counters();

}  // namespace tenon::driver
