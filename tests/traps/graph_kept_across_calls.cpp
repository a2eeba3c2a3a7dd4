// The loss of one call depends on the previous call's autograd graph.
#include "traps/trap.h"

namespace tenon::test {

struct GraphKeptAcrossCalls : Trap {
  torch::Tensor last;

  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto h = fc(x).mean(0).tanh();
    auto loss = fc2(last.defined() ? h + last : h + h).sum();
    loss.backward({}, /*retain_graph=*/true);
    last = h;
    return loss.detach();
  }
};
TENON_PROGRAM(GraphKeptAcrossCalls);

}  // namespace tenon::test
