#pragma once

#include <chrono>

namespace tenon {

// The wall time of f().
template <class F>
double seconds_of(F&& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tenon
