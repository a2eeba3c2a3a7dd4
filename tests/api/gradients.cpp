// Gradients through a compiled function equal eager's.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <thread>

#include "support/compare.h"

namespace tenon::test {

using torch::Tensor;

class Gradients : public testing::TestWithParam<std::string> {
 protected:
  Options options() { return {.backend = GetParam()}; }

  // Runs `use` with the eager function and with the compiled one, four times, and compares the results.
  template <class F, class Use>
  void expect_equal(F function, Use use) {
    auto fast = tenon::compile(function, options());
    for (int i = 0; i < 5; ++i) {
      torch::manual_seed(i);
      std::vector<Tensor> expected = use(function);
      torch::manual_seed(i);
      std::vector<Tensor> got = use(fast);
      EXPECT_EQ(difference(expected, got, "call " + std::to_string(i)), "");
    }
    EXPECT_GE(tenon::explain(fast).answered, 1u) << tenon::explain(fast);
  }

  Tensor w = torch::linspace(-1, 1, 12).view({3, 4}).requires_grad_();
};

TEST_P(Gradients, BackwardAndAccumulation) {
  expect_equal([&](Tensor x) { return torch::tanh(torch::mm(x, w)); },
               [&](auto& f) {
                 w.mutable_grad().reset();
                 f(torch::randn({2, 3})).sum().backward();
                 f(torch::randn({2, 3})).pow(2).sum().backward();
                 return std::vector<Tensor>{w.grad().clone()};
               });
}

TEST_P(Gradients, AutogradGradOfTheArgumentOnly) {
  expect_equal([&](Tensor x) { return torch::sigmoid(torch::mm(x, w)); },
               [&](auto& f) {
                 Tensor x = torch::randn({2, 3}).requires_grad_();
                 return torch::autograd::grad({f(x).sum()}, {x});
               });
}

TEST_P(Gradients, TwoCallsBeforeOneBackward) {
  expect_equal([&](Tensor x) { return torch::exp(torch::mm(x, w)); },
               [&](auto& f) {
                 w.mutable_grad().reset();
                 Tensor a = f(torch::randn({2, 3})), b = f(torch::randn({2, 3}));
                 (a * b).sum().backward();
                 return std::vector<Tensor>{a.detach(), b.detach(), w.grad().clone()};
               });
}

TEST_P(Gradients, HooksOnParametersRunOnce) {
  int runs = 0;
  w.register_hook([&](Tensor g) {
    ++runs;
    return g * 2;
  });
  expect_equal([&](Tensor x) { return torch::mm(x, w).relu(); },
               [&](auto& f) {
                 w.mutable_grad().reset();
                 runs = 0;
                 f(torch::randn({2, 3})).sum().backward();
                 return std::vector<Tensor>{w.grad().clone(), torch::tensor(runs)};
               });
}

TEST_P(Gradients, HookOnANonLeafArgumentRunsOnce) {
  expect_equal([&](Tensor x) { return torch::mm(x, w).tanh(); },
               [&](auto& f) {
                 int runs = 0;
                 Tensor leaf = torch::randn({2, 3}).requires_grad_();
                 Tensor x = leaf * 3;
                 x.register_hook([&](Tensor g) {
                   ++runs;
                   return g * 2;
                 });
                 f(x).sum().backward();
                 return std::vector<Tensor>{leaf.grad().clone(), torch::tensor(runs)};
               });
}

TEST_P(Gradients, RetainGraphTwice) {
  expect_equal([&](Tensor x) { return torch::mm(x, w).pow(3); },
               [&](auto& f) {
                 w.mutable_grad().reset();
                 Tensor y = f(torch::randn({2, 3})).sum();
                 y.backward({}, /*retain_graph=*/true);
                 y.backward();
                 return std::vector<Tensor>{w.grad().clone()};
               });
}

TEST_P(Gradients, UnusedOutput) {
  expect_equal(
      [&](Tensor x) {
        Tensor h = torch::mm(x, w);
        return std::make_tuple(h.sin(), h.cos());
      },
      [&](auto& f) {
        w.mutable_grad().reset();
        auto [a, b] = f(torch::randn({2, 3}));
        a.sum().backward();
        return std::vector<Tensor>{w.grad().clone(), b.detach()};
      });
}

TEST_P(Gradients, NowOneOutputNowTheOther) {
  int call = 0;
  expect_equal(
      [&](Tensor x) {
        Tensor h = torch::mm(x, w);
        return std::make_tuple(h.sin(), h.exp());
      },
      [&](auto& f) {
        w.mutable_grad().reset();
        auto [a, b] = f(torch::randn({2, 3}));
        int which = call++ / 2 % 3;
        (which == 0 ? a.sum() : which == 1 ? b.sum() : (a * b).sum()).backward();
        return std::vector<Tensor>{w.grad().clone()};
      });
}

TEST_P(Gradients, DoubleBackwardThroughIt) {
  expect_equal([&](Tensor x) { return torch::tanh(torch::mm(x, w)); },
               [&](auto& f) {
                 w.mutable_grad().reset();
                 Tensor x = torch::randn({2, 3}).requires_grad_();
                 Tensor y = f(x).sum();
                 Tensor g = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
                 g.pow(2).sum().backward();
                 return std::vector<Tensor>{g.detach(), w.grad().clone(), x.grad().clone()};
               });
}

// First and second derivatives together: the two gradient paths through the function are summed outside of it
// instead of inside, so the last bit may differ (docs/limits.md).
TEST_P(Gradients, FirstAndSecondOrderTogether) {
  auto function = [&](Tensor x) { return torch::tanh(torch::mm(x, w)); };
  auto fast = tenon::compile(function, options());
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::randn({2, 3}).requires_grad_();
    auto use = [&](auto& f) {
      w.mutable_grad().reset();
      Tensor y = f(x).sum();
      Tensor g = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
      (g.pow(2).sum() + y).backward();
      return w.grad().clone();
    };
    Tensor expected = use(function), got = use(fast);
    EXPECT_LT((expected - got).abs().max().item<float>(), 1e-6 * expected.abs().max().item<float>());
  }
}

TEST_P(Gradients, AParameterChangedBeforeTheBackwardIsAnError) {
  auto fast = tenon::compile([&](Tensor x) { return torch::mm(x, w).tanh(); }, options());
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::randn({2, 3}).requires_grad_();
    Tensor y = fast(x);
    {
      torch::NoGradGuard no_grad;
      w.mul_(1.0);
    }
    EXPECT_THROW(y.sum().backward(), std::exception) << i;
  }
}

TEST_P(Gradients, AParameterThatTheBackwardDoesNotReadMayChange) {
  Tensor bias = torch::zeros({4}).requires_grad_();
  expect_equal([&](Tensor x) { return torch::mm(x, w) + bias; },
               [&](auto& f) {
                 w.mutable_grad().reset();
                 Tensor y = f(torch::randn({2, 3}));
                 {
                   torch::NoGradGuard no_grad;
                   bias.add_(1);
                 }
                 y.sum().backward();
                 return std::vector<Tensor>{w.grad().clone()};
               });
}

TEST_P(Gradients, TwoThreadsDifferentiate) {
  auto fast = tenon::compile([&](Tensor x) { return torch::tanh(torch::mm(x, w)); }, options());
  std::atomic<int> wrong{0};
  auto work = [&](int seed) {
    Tensor x = (torch::arange(6, torch::kFloat).view({2, 3}) * seed / 10).requires_grad_();
    Tensor expected = torch::autograd::grad({torch::tanh(torch::mm(x, w)).sum()}, {x})[0];
    for (int i = 0; i < 200; ++i) wrong += !torch::equal(expected, torch::autograd::grad({fast(x).sum()}, {x})[0]);
  };
  std::thread one(work, 1), two(work, 2);
  one.join();
  two.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(Gradients, SecondBackwardWithoutRetainIsAnError) {
  auto fast = tenon::compile([&](Tensor x) { return torch::mm(x, w).tanh(); }, options());
  for (int i = 0; i < 5; ++i) {
    Tensor y = fast(torch::randn({2, 3})).sum();
    y.backward();
    EXPECT_THROW(y.backward(), std::exception) << i;
  }
}

TEST_P(Gradients, NothingDifferentiatedForManyCalls) {
  auto fast = tenon::compile([&](Tensor x) { return torch::mm(x, w).tanh(); }, options());
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(fast(torch::randn({2, 3})).requires_grad());
  EXPECT_GE(tenon::explain(fast).answered, 4u) << tenon::explain(fast);
  w.mutable_grad().reset();
  Tensor x = torch::randn({2, 3});
  torch::mm(x, w).tanh().sum().backward();
  Tensor expected = w.grad().clone();
  for (int i = 0; i < 3; ++i) {
    w.mutable_grad().reset();
    fast(x).sum().backward();
    EXPECT_EQ(difference(expected, w.grad()), "");
  }
}

// The same under Trust::pure, where a graph serves the call without the program.
class PureGradients : public testing::TestWithParam<std::string> {
 protected:
  Options options() { return {.backend = GetParam(), .trust = Trust::pure}; }

  // A training loop with the eager function and with the compiled one; gradients agree to the last bits.
  template <class F, class Use>
  void expect_close(F function, Use use, int calls = 8) {
    auto fast = tenon::compile(function, options());
    for (int i = 0; i < calls; ++i) {
      torch::manual_seed(i);
      Tensor expected = use(function, i);
      torch::manual_seed(i);
      Tensor got = use(fast, i);
      EXPECT_TRUE(torch::allclose(expected, got, 1e-5, 1e-6)) << i << "\n" << expected << got << tenon::explain(fast);
    }
  }

  Tensor gradient() const { return fc->weight.grad().clone(); }
  torch::nn::Linear fc{4, 4};
};

TEST_P(PureGradients, GradientPenaltyPlusLoss) {
  auto step = [&](auto& f, int) {
    fc->zero_grad();
    Tensor x = torch::randn({3, 4}).requires_grad_();
    Tensor y = f(x).sum();
    Tensor slope = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
    (slope.pow(2).sum() + y).backward();
    return gradient();
  };
  expect_close([&](Tensor x) { return torch::tanh(fc(x)).pow(2); }, step);
}

TEST_P(PureGradients, GradientPenaltyThroughDropout) {
  auto step = [&](auto& f, int i) {
    fc->zero_grad();
    Tensor x = torch::randn({3, 4}).requires_grad_();
    Tensor y = f(x).sum();
    // The penalty is applied on some calls only, as in regularizers. It must use the dropout masks of the same call.
    Tensor penalty = i % 3 == 2 ? torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0].pow(2).sum() : torch::zeros({});
    Tensor next = torch::rand({1});  // The generator has the same state as in eager.
    (penalty + y).backward();
    return torch::cat({gradient().flatten(), next});
  };
  expect_close([&](Tensor x) { return torch::dropout(torch::tanh(fc(x)), 0.5, /*train=*/true); }, step);
}

// A program whose graph cannot be run again for a second derivative runs eagerly after such a derivative was requested.
TEST_P(PureGradients, GradientPenaltyWhereStateIsWritten) {
  Tensor calls = torch::zeros({});
  auto step = [&](auto& f, int) {
    fc->zero_grad();
    calls.zero_();
    Tensor x = torch::randn({3, 4}).requires_grad_();
    Tensor y = f(x).sum();
    Tensor slope = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
    (slope.pow(2).sum() + y).backward();
    return gradient() + calls;
  };
  auto counted = [&](Tensor x) {
    calls.add_(1);
    return torch::tanh(fc(x)).pow(2);
  };
  expect_close(counted, step);
}

TEST_P(PureGradients, LossOfAnotherLayoutWhereStateIsWritten) {
  for (bool sum_first : {true, false}) {
    Tensor calls = torch::zeros({});
    auto step = [&](auto& f, int i) {
      fc->zero_grad();
      calls.zero_();
      Tensor y = f(torch::randn({3, 4}));
      ((i < 4) == sum_first ? y.sum() : y.pow(2).mean()).backward();
      return gradient() + calls;
    };
    auto counted = [&](Tensor x) {
      calls.add_(1);
      return torch::tanh(fc(x));
    };
    expect_close(counted, step);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, PureGradients, testing::Values("eager", "aot_eager", "aten"));
INSTANTIATE_TEST_SUITE_P(Backends, Gradients, testing::Values("eager", "aot_eager", "aten"));

}  // namespace tenon::test
