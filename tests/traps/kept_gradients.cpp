// Gradients exist before the call: they are accumulated, zeroed in place, replaced by another layout, and held.
#include "traps/trap.h"

namespace tenon::test {

struct KeptGradients : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    fc2(fc(x).tanh()).pow(2).sum().backward();
    int way = call / 2 % 4;
    if (way == 1) fc->weight.mutable_grad().zero_();
    if (way == 2) fc->weight.mutable_grad() = torch::ones({8, 8}).t();
    if (way == 3) kept = fc->weight.grad();
    fc2(fc(x).sigmoid()).sum().backward();
    seen.push_back(static_cast<double>(fc->weight.grad()._version()));
    return fc->weight.grad().clone();
  }
};
TENON_PROGRAM(KeptGradients);

}  // namespace tenon::test
