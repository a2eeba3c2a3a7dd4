// A task of at::launch computes with an intermediate result.
#include <ATen/Parallel.h>
#include <future>

#include "traps/trap.h"

namespace tenon::test {

struct LaunchComputes : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x).detach();
    std::promise<torch::Tensor> promise;
    at::launch([&] { promise.set_value(h.exp()); });
    return fc2(h) + promise.get_future().get();
  }
};
TENON_PROGRAM(LaunchComputes);

}  // namespace tenon::test
