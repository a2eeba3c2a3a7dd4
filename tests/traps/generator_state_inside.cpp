// The program reads and restores the generator's state inside the call.
#include <ATen/CPUGeneratorImpl.h>

#include "traps/trap.h"

namespace tenon::test {

struct GeneratorStateInside : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto generator = at::detail::getDefaultCPUGenerator();
    auto h = torch::dropout(fc(x), 0.5, true);
    auto state = generator.get_state();
    auto a = torch::dropout(h, 0.5, true);
    generator.set_state(state);
    auto b = torch::dropout(h, 0.5, true);
    return fc2(a - b) + a;
  }
};
TENON_PROGRAM(GeneratorStateInside);

}  // namespace tenon::test
