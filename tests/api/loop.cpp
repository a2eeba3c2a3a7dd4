// The training loop as people write it: the model and the optimizer are compiled, the backward runs after the call.
#include <ATen/autocast_mode.h>
#include <ATen/ops/_make_dual.h>
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/csrc/autograd/forward_grad.h>
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
  EXPECT_GE(why.backwards.whole, 6u) << why;
  EXPECT_EQ(why.calls, 8u) << "backward passes are not calls";
}

// Autograd saves such a number as a tensor that is no tensor of the program.
TEST(Loop, C8ANumberInTheLossThatChanges) {
  Explanation why = compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    (forward(torch::randn({3, 6})).pow(2) * (i + 0.5)).mean().backward();
  });
  EXPECT_GE(why.backwards.answered, 5u) << why;
}

TEST(Loop, C8AnExponentThatChanges) {
  compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    forward(torch::randn({3, 6})).abs().pow(1.5 + i % 3).mean().backward();
  });
}

TEST(Loop, C8TheSizeOfTheMeanChanges) {
  compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    forward(torch::randn({3, 6})).slice(0, 0, 1 + i % 3).pow(2).mean().backward();
  });
}

TEST(Loop, C8TwoModelsTakeTurns) {
  Explanation why = compare_loops([](Net& net, auto forward, int) {
    net->zero_grad();
    Tensor a = forward(torch::randn({3, 6})).pow(2).mean(), b = forward(torch::randn({3, 6})).abs().mean();
    a.backward();
    b.backward();
  });
  EXPECT_GE(why.backwards.whole, 10u) << why;
}

// The gradient becomes another object between steps, or another tensor's memory.
TEST(Loop, C8GradientsAreReplaced) {
  std::vector<Tensor> kept[2];
  int loop = 0;
  compare_loops([&](Net& net, auto forward, int i) {
    auto& list = kept[loop++ % 2];
    if (i % 3 == 0) net->zero_grad();
    if (i % 4 == 1) net->in->weight.mutable_grad() = torch::ones({8, 6});
    if (i % 4 == 2) net->in->weight.mutable_grad() = torch::ones({6, 8}).t();
    forward(torch::randn({3, 6})).pow(2).mean().backward();
    list.push_back(net->out->weight.grad());
  });
}

TEST(Loop, C8AHookComesAndGoes) {
  std::vector<double> seen[2];
  int loop = 0;
  Explanation why = compare_loops(
      [&](Net& net, auto forward, int i) {
        auto& list = seen[loop++ % 2];
        net->zero_grad();
        Tensor y = forward(torch::randn({3, 6}));
        if (i % 5 == 4) y.register_hook([&](const Tensor& gradient) { list.push_back(gradient.sum().item<double>()); });
        y.pow(2).mean().backward();
      },
      12);
  EXPECT_EQ(seen[0].size(), 2u);
  EXPECT_EQ(seen[1].size(), 2u);
  EXPECT_GE(why.backwards.whole, 6u) << why;
}

TEST(Loop, C8AParameterIsFrozenBeforeTheBackward) {
  compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    Tensor loss = forward(torch::randn({3, 6})).pow(2).mean();
    net->in->bias.set_requires_grad(i % 4 != 2);
    loss.backward();
    net->in->bias.set_requires_grad(true);
  });
}

TEST(Loop, C8ASparseOperand) {
  torch::manual_seed(3);
  Tensor sparse = torch::randn({4, 5}).to_sparse_csr(), a = torch::randn({5, 2}).requires_grad_(), b = a.detach().clone().requires_grad_();
  auto product = [&](const Tensor& w) { return torch::mm(sparse, w); };
  auto fast = tenon::compile(product);
  for (int i = 0; i < 5; ++i) {
    product(a).sum().backward();
    fast(b).sum().backward();
    EXPECT_EQ(difference(a.grad(), b.grad()), "") << "step " << i;
  }
}

TEST(Loop, C8AutocastInTheBackward) {
  compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    Tensor loss = forward(torch::randn({3, 6})).pow(2).mean();
    at::autocast::set_autocast_enabled(at::kCPU, i >= 2);
    at::autocast::set_autocast_dtype(at::kCPU, i < 5 ? at::kBFloat16 : at::kHalf);
    loss.backward();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::clear_cache();
  });
}

TEST(Loop, C8ATangentInTheBackward) {
  Net eager = make_net(), compiled = make_net();
  auto fast = tenon::compile(compiled);
  Tensor x = torch::randn({3, 6});
  for (int i = 0; i < 6; ++i) {
    Tensor tangents[2];
    int which = 0;
    std::vector<std::pair<Net, std::function<Tensor(const Tensor&)>>> forms = {{eager, [&](const Tensor& t) { return eager->forward(t); }},
                                                                               {compiled, [&](const Tensor& t) { return fast(t); }}};
    for (auto& [net, forward] : forms) {
      net->zero_grad();
      Tensor y = forward(x);
      uint64_t level = torch::autograd::ForwardADLevel::get_next_idx();
      Tensor gradient = torch::ones_like(y);
      y.backward(i < 4 ? gradient : at::_make_dual(gradient, torch::full_like(y, 0.5), static_cast<int64_t>(level)));
      Tensor tangent = net->out->bias.grad()._fw_grad(level);
      tangents[which++] = tangent.defined() ? tangent.clone() : tangent;
      torch::autograd::ForwardADLevel::release_idx(level);
    }
    EXPECT_EQ(tangents[0].defined(), tangents[1].defined()) << "step " << i;
    if (tangents[0].defined() && tangents[1].defined()) EXPECT_EQ(difference(tangents[0], tangents[1]), "") << "step " << i;
  }
}

// Gradients of all threads are added.
TEST(Loop, C8BackwardsOfTwoThreads) {
  for (int round = 0; round < 20; ++round) {
    Net eager = make_net(), compiled = make_net();
    auto fast = tenon::compile(compiled);
    std::vector<Tensor> inputs = {torch::randn({3, 6}), torch::randn({3, 6})};
    for (int i = 0; i < 6; ++i) {
      eager->zero_grad(), compiled->zero_grad();
      for (const Tensor& x : inputs) eager->forward(x).pow(2).mean().backward();
      std::vector<std::thread> threads;
      for (const Tensor& x : inputs) threads.emplace_back([&] { fast(x).pow(2).mean().backward(); });
      for (std::thread& thread : threads) thread.join();
      ASSERT_EQ(difference(eager->out->weight.grad(), compiled->out->weight.grad()), "") << "round " << round << ", step " << i;
      ASSERT_EQ(difference(eager->in->bias.grad(), compiled->in->bias.grad()), "") << "round " << round << ", step " << i;
    }
  }
}

TEST(Loop, C8GradientsAreViewsOfOneTensor) {
  compare_loops([flat = Tensor()](Net& net, auto forward, int i) mutable {
    flat = torch::zeros({4 + 32});
    net->out->bias.mutable_grad() = flat.slice(0, 0, 4);
    net->out->weight.mutable_grad() = flat.slice(0, 4).view({4, 8});
    net->in->weight.mutable_grad().reset(), net->in->bias.mutable_grad().reset();
    forward(torch::randn({3, 6})).pow(2).mean().backward();
    EXPECT_LE(flat._version(), 8) << "step " << i;
  });
}

TEST(Loop, C8OtherSizesInTheLoop) {
  Explanation why = compare_loops(
      [](Net& net, auto forward, int i) {
        net->zero_grad();
        forward(torch::randn({2 + i % 3, 6})).pow(2).mean().backward();
      },
      24);
  EXPECT_LE(why.backwards.recorded, 2u) << why;
  EXPECT_GE(why.backwards.whole, 12u) << why;
}

TEST(Loop, C8AccumulationOverThreeForwards) {
  Explanation why = compare_loops(
      [](Net& net, auto forward, int) {
        net->zero_grad();
        for (int k = 0; k < 3; ++k) (forward(torch::randn({3, 6})).pow(2).mean() / 3).backward();
      },
      12);
  EXPECT_GE(why.backwards.whole, 24u) << why;
}

// The weight of the loss is a tensor: its contents may change.
TEST(Loop, C8ATensorInTheLossThatChanges) {
  Explanation why = compare_loops([](Net& net, auto forward, int i) {
    net->zero_grad();
    Tensor weight = torch::full({}, i + 0.25);
    (forward(torch::randn({3, 6})).pow(2).mean() * weight).backward();
  });
  EXPECT_GE(why.backwards.whole, 5u) << why;
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

}  // namespace
}  // namespace tenon::test
