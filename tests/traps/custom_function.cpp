// A custom autograd Function with saved tensors is differentiated inside the call.
#include "traps/trap.h"

namespace tenon::test {

struct Square : torch::autograd::Function<Square> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x) {
    context->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list g) {
    return {g[0] * 2 * context->get_saved_variables()[0]};
  }
};

struct CustomFunction : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto loss = Square::apply(fc2(fc(x).relu())).sum();
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(CustomFunction);

}  // namespace tenon::test
