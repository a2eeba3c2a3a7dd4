// A custom autograd Function has a scalar in its context that changes.
#include "traps/trap.h"

namespace tenon::test {

struct Reverse : torch::autograd::Function<Reverse> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x, double lambda) {
    context->saved_data["lambda"] = lambda;
    return x.view_as(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list g) {
    return {-context->saved_data["lambda"].toDouble() * g[0], torch::Tensor()};
  }
};

struct GradientReversal : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = Reverse::apply(fc(x), 0.1 * (call + 1));
    return fc2(h).sum();
  }
};
TENON_PROGRAM(GradientReversal);

struct GradientReversalInside : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto loss = fc2(Reverse::apply(fc(x), 0.1 * (call / 2 + 1))).sum();
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(GradientReversalInside);

}  // namespace tenon::test
