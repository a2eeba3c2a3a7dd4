// A hook throws, and the program catches it.
#include <stdexcept>

#include "traps/trap.h"

namespace tenon::test {

struct HookThatThrows : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto h = fc(x);
    h.register_hook([this](torch::Tensor g) -> torch::Tensor {
      buffer.add_(g.mean(0));
      if (call % 3 == 2) throw std::runtime_error("from the hook");
      return g * 2;
    });
    auto loss = fc2(h).sum();
    try {
      loss.backward();
    } catch (const std::exception&) {
      buffer.mul_(2);
    }
    return loss.detach();
  }
};
TENON_PROGRAM(HookThatThrows);

}  // namespace tenon::test
