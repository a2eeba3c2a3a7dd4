// Caches whether the shapes of an op's results can be inferred without running it. Any thread may fill the cache.
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
  bool holds(F&& check) const {
    if (state_.load(std::memory_order_relaxed) == kUnknown) state_.store(check() ? kHolds : kFails, std::memory_order_relaxed);
    return state_.load(std::memory_order_relaxed) == kHolds;
  }

 private:
  static constexpr int8_t kUnknown = 0, kHolds = 1, kFails = 2;
  mutable std::atomic<int8_t> state_{kUnknown};
};

}  // namespace tenon::capture
