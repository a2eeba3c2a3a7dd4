// What counters() tells.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenon::codegen {

struct Counting {
  std::atomic<int64_t> compiled{0};
  std::atomic<int64_t> live{0};
  std::atomic<int64_t> live_bytes{0};
};
inline Counting counting;

}  // namespace tenon::codegen
