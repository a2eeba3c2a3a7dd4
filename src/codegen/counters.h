// The counters that counters() returns.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenon::codegen {

struct AtomicCounters {
  std::atomic<int64_t> compiled{0};
  std::atomic<int64_t> live{0};
  std::atomic<int64_t> live_bytes{0};
};
inline AtomicCounters atomic_counters;

}  // namespace tenon::codegen
