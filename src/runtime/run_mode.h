// How the nodes of a graph are run.
#pragma once

#include <cstdint>

namespace tenon::runtime {

enum class RunMode : uint8_t {
  kernels,   // Calls the CPU kernels below autograd.
  autograd,  // Uses the whole dispatcher; autograd builds its graph as in the program.
  visible,   // Uses the whole dispatcher with grad mode off, so that a listener sees the ops.
};

}  // namespace tenon::runtime
