// Gradients that are there already: added to, zeroed in place, replaced by another layout, held.
#include "traps/trap.h"

namespace tenon::test {

struct KeptGradients : Trap {
  torch::Tensor body(torch::Tensor x) override {
    if (call % 6 == 2 && fc->weight.grad().defined()) fc->weight.mutable_grad().zero_();
    if (call % 6 == 3) fc->weight.mutable_grad() = torch::ones({8, 8}).t();
    if (call % 6 == 4) kept = fc->weight.grad();
    if (call % 6 == 5) clear_gradients();
    fc2(fc(x).tanh()).pow(2).sum().backward();
    seen.push_back(static_cast<double>(fc->weight.grad()._version()));
    return fc->weight.grad().clone();
  }
};
TENON_PROGRAM(KeptGradients);

}  // namespace tenon::test
