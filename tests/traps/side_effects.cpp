// Statements with side effects run exactly once, whatever causes the flush.
#include <stdexcept>

#include "traps/trap.h"

namespace tenon::test {

struct SideEffects : Trap {
  torch::Tensor body(torch::Tensor x) override {
    seen.push_back(1);
    auto h = fc(x);
    if (call % 5 == 0) seen.push_back(h.data_ptr<float>()[0]);
    if (call % 5 == 1) seen.push_back(h.sum().item<double>());
    if (call % 5 == 2) h = h.relu();
    if (call % 5 == 3) buffer.add_(h.detach().mean(0));
    seen.push_back(2);
    if (call == 9) throw std::runtime_error("after all");
    return fc2(h);
  }
};
TENON_PROGRAM(SideEffects);

}  // namespace tenon::test
