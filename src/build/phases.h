// Time per compilation phase. The phases are listed in phases.def.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace tenon::build {

enum class Phase : uint8_t {
#define TENON_PHASE(name, what) name,
#include "build/phases.def"
#undef TENON_PHASE
  count
};

const char* phase_name(Phase phase);

struct Phases {
  std::array<double, static_cast<size_t>(Phase::count)> seconds{};

  template <class F>
  auto time(Phase phase, F&& f) {
    struct Stop {
      Phases& phases;
      Phase phase;
      std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
      ~Stop() {
        phases.seconds[static_cast<size_t>(phase)] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      }
    } stop{*this, phase};
    return f();
  }
};

}  // namespace tenon::build
