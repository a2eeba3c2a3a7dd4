// The training loop as people write it: the model and the optimizer are compiled, the backward runs after the call.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <tenon/optimizer.h>
#include <torch/torch.h>

#include <thread>

#include "support/compare.h"

namespace tenon::test {
namespace {

using torch::Tensor;

struct NetImpl : torch::nn::Module {
  NetImpl() : in(register_module("in", torch::nn::Linear(6, 8))), out(register_module("out", torch::nn::Linear(8, 4))) {}
  Tensor forward(const Tensor& x) { return out(torch::gelu(in(x))); }
  torch::nn::Linear in, out;
};
TORCH_MODULE(Net);

Net make_net() {
  torch::manual_seed(5);
  return Net();
}

// Runs `step(model, forward, i)` with an eager model and with a compiled one, and compares parameters and gradients after each step.
template <class Step>
Explanation compare_loops(Step step, int steps = 8) {
  Net eager = make_net(), compiled = make_net();
  auto fast = tenon::compile(compiled, {.name = "net"});
  for (int i = 0; i < steps; ++i) {
    torch::manual_seed(i);
    step(
        eager, [&](const Tensor& x) { return eager->forward(x); }, i);
    torch::manual_seed(i);
    step(
        compiled, [&](const Tensor& x) { return fast(x); }, i);
    auto a = eager->named_parameters(), b = compiled->named_parameters();
    for (const auto& parameter : a) {
      const Tensor& other = b[parameter.key()];
      EXPECT_EQ(difference(parameter.value(), other), "") << parameter.key() << ", step " << i;
      EXPECT_EQ(parameter.value().grad().defined(), other.grad().defined()) << parameter.key() << ", step " << i;
      if (other.grad().defined()) EXPECT_EQ(difference(parameter.value().grad(), other.grad()), "") << parameter.key() << ", step " << i;
    }
  }
  return explain(fast);
}

TEST(Loop, C8TheBackwardAfterACallIsServedByGraphs) {
  Explanation why = compare_loops([](Net& net, auto forward, int) {
    net->zero_grad();
    forward(torch::randn({3, 6})).pow(2).mean().backward();
  });
  EXPECT_EQ(why.backwards.calls, 8u) << why;
  EXPECT_EQ(why.backwards.recorded, 1u) << why;
  EXPECT_GE(why.backwards.answered, 6u) << why;
  EXPECT_EQ(why.calls, 8u) << "backward passes are not calls";
}

TEST(Loop, C8GradientsAccumulate) {
  Explanation why = compare_loops([](Net&, auto forward, int) { forward(torch::randn({3, 6})).pow(2).mean().backward(); });
  EXPECT_GE(why.backwards.answered, 5u) << why;
}

TEST(Loop, C8OneBackwardAfterTwoForwards) {
  Explanation why = compare_loops([](Net& net, auto forward, int) {
    net->zero_grad();
    Tensor a = forward(torch::randn({3, 6})), b = forward(torch::randn({3, 6}));
    (a * b).sum().backward();
  });
  EXPECT_GE(why.backwards.answered, 6u) << why;
}

TEST(Loop, C8TheGraphIsKept) {
  compare_loops([](Net& net, auto forward, int) {
    net->zero_grad();
    Tensor loss = forward(torch::randn({3, 6})).pow(2).mean();
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    EXPECT_THROW(loss.backward(), c10::Error);  // The saved tensors are released.
  });
}

TEST(Loop, C8GradientsOfSomeInputs) {
  compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    Tensor x = torch::randn({3, 6}).requires_grad_();
    Tensor loss = forward(x).pow(2).mean();
    Tensor gradient = torch::autograd::grad({loss}, {i % 2 ? x : net->out->weight}, {}, /*retain_graph=*/true)[0];
    torch::NoGradGuard no_grad;
    net->in->bias.add_(gradient.sum());
  });
}

TEST(Loop, C8GradientsOfGradients) {
  compare_loops([](Net& net, auto forward, int) {
    net->zero_grad();
    Tensor x = torch::randn({3, 6}).requires_grad_();
    Tensor gradient = torch::autograd::grad({forward(x).pow(2).sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    gradient.pow(2).sum().backward();
  });
}

TEST(Loop, C8HooksSeeTheGradients) {
  std::vector<double> seen[2];
  int loop = 0;
  compare_loops([&](Net& net, auto forward, int i) {
    auto& list = seen[loop++ % 2];
    net->zero_grad();
    Tensor y = forward(torch::randn({3, 6}));
    y.register_hook([&](const Tensor& gradient) {
      list.push_back(gradient.sum().item<double>());
      return gradient * (i + 1);
    });
    unsigned id = net->in->weight.register_hook([&](const Tensor& gradient) { list.push_back(gradient.abs().max().item<double>()); });
    y.pow(2).mean().backward();
    net->in->weight.remove_hook(id);
  });
  ASSERT_EQ(seen[0].size(), 16u);
  ASSERT_EQ(seen[1].size(), 16u);
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(seen[0][i], seen[1][i], 1e-5 + 1e-5 * std::abs(seen[0][i]));
}

TEST(Loop, C8AHookThatThrows) {
  compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    Tensor y = forward(torch::randn({3, 6}));
    if (i == 4) y.register_hook([](const Tensor&) -> void { throw std::runtime_error("from the hook"); });
    Tensor loss = y.pow(2).mean();
    if (i == 4) EXPECT_THROW(loss.backward(), std::runtime_error);
    else loss.backward();
  });
}

TEST(Loop, C8ASavedTensorThatWasChanged) {
  compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    Tensor loss = forward(torch::randn({3, 6})).pow(2).mean();
    if (i == 5) {
      torch::NoGradGuard no_grad;
      net->out->weight.mul_(1.5);
      EXPECT_THROW(loss.backward(), c10::Error);  // modified by an inplace operation
      net->zero_grad();
    } else {
      loss.backward();
    }
  });
}

TEST(Loop, C8ABackwardOnAnotherThread) {
  compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    Tensor loss = forward(torch::randn({3, 6})).pow(2).mean();
    if (i % 2) std::thread([&] { loss.backward(); }).join();
    else loss.backward();
  });
}

TEST(Loop, C8TheCompiledFunctionIsGone) {
  Net eager = make_net(), compiled = make_net();
  Tensor x = torch::randn({3, 6}), loss;
  {
    auto fast = tenon::compile(compiled);
    for (int i = 0; i < 4; ++i) {
      compiled->zero_grad();
      loss = fast(x).pow(2).mean();
      if (i < 3) loss.backward();
    }
  }
  loss.backward();
  eager->forward(x).pow(2).mean().backward();
  EXPECT_EQ(difference(eager->in->weight.grad(), compiled->in->weight.grad()), "");
}

template <class Optimizer, class Settings>
void compare_optimizers(const Settings& settings) {
  Net eager = make_net(), compiled = make_net();
  Optimizer a(eager->parameters(), settings), b(compiled->parameters(), settings);
  auto step = tenon::compile(b, {.name = "optimizer"});
  for (int i = 0; i < 10; ++i) {
    Tensor x = torch::randn({3, 6});
    a.zero_grad(), b.zero_grad();
    eager->forward(x).pow(2).mean().backward();
    compiled->forward(x).pow(2).mean().backward();
    double rate = i < 5 ? 0.01 : 0.002;
    a.param_groups()[0].options().set_lr(rate), b.param_groups()[0].options().set_lr(rate);
    a.step();
    step();
    for (size_t p = 0; p < 4; ++p)
      EXPECT_EQ(difference(eager->parameters()[p], compiled->parameters()[p]), "") << "parameter " << p << ", step " << i;
  }
  Explanation why = explain(step);
  EXPECT_EQ(why.plain, 0u) << why;
  EXPECT_GE(why.answered, 5u) << why;
}

TEST(Loop, C12OptimizersAreCompiled) {
  compare_optimizers<torch::optim::SGD>(torch::optim::SGDOptions(0.01).momentum(0.9));
  compare_optimizers<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  compare_optimizers<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).weight_decay(0.1));
  compare_optimizers<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01));
  Net net = make_net();
  torch::optim::SGD sgd(net->parameters(), 0.1);
  EXPECT_THROW(tenon::compile(sgd, {.trust = Trust::pure}), UserError);
}

}  // namespace
}  // namespace tenon::test
