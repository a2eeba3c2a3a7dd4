// Whether what an op returns is known without running it: found out once, by any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenon::capture {

class ShapeRule {
 public:
  ShapeRule() = default;
  ShapeRule(const ShapeRule& other) : state_(other.state_.load(std::memory_order_relaxed)) {}
  ShapeRule& operator=(const ShapeRule& other) {
    state_.store(other.state_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }

  template <class F>
  bool holds(F&& find_out) const {
    if (state_.load(std::memory_order_relaxed) == kUnknown) state_.store(find_out() ? kHolds : kFails, std::memory_order_relaxed);
    return state_.load(std::memory_order_relaxed) == kHolds;
  }

 private:
  static constexpr int8_t kUnknown = 0, kHolds = 1, kFails = 2;
  mutable std::atomic<int8_t> state_{kUnknown};
};

}  // namespace tenon::capture
