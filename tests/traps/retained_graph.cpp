// The same autograd graph is differentiated once, twice, and after it was freed.
#include "traps/trap.h"

namespace tenon::test {

struct RetainedGraph : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto loss = fc2(fc(x).tanh()).pow(2).sum();
    bool keep = call % 4 != 3;
    loss.backward({}, keep);
    if (call % 4 >= 1) loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(RetainedGraph);

}  // namespace tenon::test
