// Compiled optimizers: libtorch's own updates, clipping by the norm, and float copies of weights in bf16.
#include <gtest/gtest.h>
#include <tenon/inspect.h>
#include <tenon/optimizer.h>
#include <torch/torch.h>

#include "support/compare.h"

namespace tenon::test {
namespace {

using torch::Tensor;

torch::nn::Sequential make_perceptron() {
  torch::manual_seed(5);
  return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::GELU(), torch::nn::Linear(8, 4));
}

void expect_equal_parameters(torch::nn::Sequential& eager, torch::nn::Sequential& compiled, int step) {
  for (size_t p = 0; p < eager->parameters().size(); ++p)
    EXPECT_EQ(difference(eager->parameters()[p], compiled->parameters()[p]), "") << "parameter " << p << ", step " << step;
}

template <class Optimizer, class Settings>
void compare_optimizers(const Settings& settings) {
  auto eager = make_perceptron(), compiled = make_perceptron();
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
    EXPECT_FALSE(step().defined());
    expect_equal_parameters(eager, compiled, i);
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
  auto net = make_perceptron();
  torch::optim::SGD sgd(net->parameters(), 0.1);
  EXPECT_THROW(tenon::compile(sgd, {.trust = Trust::pure}), UserError);
}

TEST(Loop, C12TheStepClipsGradients) {
  auto eager = make_perceptron(), compiled = make_perceptron();
  torch::optim::AdamW a(eager->parameters(), torch::optim::AdamWOptions(0.01)), b(compiled->parameters(), torch::optim::AdamWOptions(0.01));
  auto step = tenon::compile(b, StepOptions{.max_grad_norm = 0.05}, {.name = "clipped"});
  for (int i = 0; i < 10; ++i) {
    Tensor x = torch::randn({3, 6}) * (i % 3 == 0 ? 0.01 : 1.0);  // Some gradients are smaller than the bound.
    a.zero_grad(), b.zero_grad();
    eager->forward(x).pow(2).mean().backward();
    compiled->forward(x).pow(2).mean().backward();
    if (i == 7) eager->parameters()[0].mutable_grad().reset(), compiled->parameters()[0].mutable_grad().reset();
    double norm = torch::nn::utils::clip_grad_norm_(eager->parameters(), 0.05);
    a.step();
    Tensor ours = step();
    EXPECT_NEAR(ours.item<double>(), norm, 1e-6 * norm);
    expect_equal_parameters(eager, compiled, i);
    for (size_t p = 0; p < 4; ++p)
      if (eager->parameters()[p].grad().defined())
        EXPECT_EQ(difference(eager->parameters()[p].grad(), compiled->parameters()[p].grad()), "") << "gradient " << p << ", step " << i;
  }
  Explanation why = explain(step);
  EXPECT_EQ(why.breaks.size(), 0u) << why;
  EXPECT_GE(why.answered, 4u) << why;
}

TEST(Loop, C12MasterWeights) {
  auto eager = make_perceptron(), compiled = make_perceptron();
  for (auto* net : {&eager, &compiled}) (*net)->to(torch::kBFloat16);
  MasterWeights weights(compiled->parameters());
  torch::optim::AdamW optimizer(weights.masters(), torch::optim::AdamWOptions(1e-4));
  auto step = tenon::compile(optimizer, StepOptions{.max_grad_norm = 1.0, .weights = &weights}, {.name = "masters"});
  std::vector<Tensor> masters;
  for (const Tensor& parameter : eager->parameters()) masters.push_back(parameter.detach().to(torch::kFloat).requires_grad_());
  torch::optim::AdamW by_hand(masters, torch::optim::AdamWOptions(1e-4));
  for (int i = 0; i < 20; ++i) {
    Tensor x = torch::randn({3, 6}, torch::kBFloat16);
    for (int part = 0; part < 2; ++part) {  // Two backward passes accumulate.
      eager->forward(x).pow(2).mean().backward();
      compiled->forward(x).pow(2).mean().backward();
    }
    for (size_t p = 0; p < masters.size(); ++p) masters[p].mutable_grad() = eager->parameters()[p].grad().to(torch::kFloat);
    torch::nn::utils::clip_grad_norm_(masters, 1.0);
    by_hand.step();
    step();
    for (size_t p = 0; p < masters.size(); ++p) {
      eager->parameters()[p].data().copy_(masters[p]);
      eager->parameters()[p].mutable_grad().reset();
      EXPECT_FALSE(compiled->parameters()[p].grad().defined());
      EXPECT_EQ(difference(masters[p], weights.masters()[p]), "") << "copy " << p << ", step " << i;
    }
    expect_equal_parameters(eager, compiled, i);
  }
  Explanation why = explain(step);
  EXPECT_EQ(why.plain, 0u) << why;
  EXPECT_GE(why.answered, 14u) << why;
  EXPECT_GT((weights.masters()[0] - compiled->parameters()[0].to(torch::kFloat)).abs().max().item<float>(), 0) << "nothing was rounded";
  EXPECT_THROW(MasterWeights({torch::zeros({2}, torch::kLong)}), UserError);
}

TEST(Loop, C12FloatParametersHaveNoCopies) {
  auto net = make_perceptron();
  MasterWeights weights(net->parameters());
  for (size_t p = 0; p < 4; ++p) EXPECT_TRUE(weights.masters()[p].is_same(net->parameters()[p]));
  net->forward(torch::randn({3, 6})).sum().backward();
  weights.take_gradients();
  EXPECT_TRUE(net->parameters()[0].grad().defined());
}

// A whole step under Trust::pure, beside eager. Counts of steps, learning rates and restored states are data.
template <class Optimizer, class State, class Settings>
void compare_pure_steps(const Settings& settings) {
  auto eager = make_perceptron(), compiled = make_perceptron();
  Optimizer a(eager->parameters(), settings), b(compiled->parameters(), settings);
  auto step_of = [](torch::nn::Sequential net, Optimizer& optimizer) {
    return [net, &optimizer](const Tensor& x) mutable {
      optimizer.zero_grad();
      Tensor loss = net->forward(x).pow(2).mean();
      loss.backward();
      optimizer.step();
      return loss.detach();
    };
  };
  auto by_hand = step_of(eager, a);
  auto fast = tenon::compile(step_of(compiled, b), {.trust = Trust::pure, .name = "step", .watch = {compiled, watch(b)}});
  for (int i = 0; i < 30; ++i) {
    Tensor x = torch::randn({3, 6});
    double rate = 0.01 / (1 + i / 4);
    a.param_groups()[0].options().set_lr(rate), b.param_groups()[0].options().set_lr(rate);
    EXPECT_EQ(difference(by_hand(x), fast(x)), "") << "loss, step " << i;
    expect_equal_parameters(eager, compiled, i);
    if constexpr (requires(State & state) { state.step(); })
      for (size_t p = 0; p < 4; ++p) {
        auto& state = static_cast<State&>(*b.state().at(compiled->parameters()[p].unsafeGetTensorImpl()));
        EXPECT_EQ(state.step(), i < 20 ? i + 1 : i + 101) << "parameter " << p << ", step " << i;
        if (i != 19) continue;
        state.step(state.step() + 100);  // As if a checkpoint was restored.
        static_cast<State&>(*a.state().at(eager->parameters()[p].unsafeGetTensorImpl())).step(state.step());
      }
  }
  EXPECT_GE(explain(fast).answered, 24u) << explain(fast);
}

TEST(Loop, C12PureStepsOfAdamW) {
  compare_pure_steps<torch::optim::AdamW, torch::optim::AdamWParamState>(torch::optim::AdamWOptions(0.01).weight_decay(0.1));
}
TEST(Loop, C12PureStepsOfAdam) {
  compare_pure_steps<torch::optim::Adam, torch::optim::AdamParamState>(torch::optim::AdamOptions(0.01).weight_decay(0.1).amsgrad(true));
}
TEST(Loop, C12PureStepsOfRmsprop) {
  compare_pure_steps<torch::optim::RMSprop, torch::optim::RMSpropParamState>(torch::optim::RMSpropOptions(0.01).momentum(0.9));
}
TEST(Loop, C12PureStepsOfSgd) {
  compare_pure_steps<torch::optim::SGD, torch::optim::SGDParamState>(torch::optim::SGDOptions(0.01).momentum(0.9).weight_decay(0.1));
}

TEST(Loop, C12OtherSettingsOfAWatchedOptimizer) {
  auto eager = make_perceptron(), compiled = make_perceptron();
  using torch::optim::AdamWOptions;
  torch::optim::AdamW a(eager->parameters(), AdamWOptions(0.01)), b(compiled->parameters(), AdamWOptions(0.01));
  auto step = [](torch::nn::Sequential& net, torch::optim::AdamW& optimizer, const Tensor& x) {
    optimizer.zero_grad();
    net->forward(x).sum().backward();
    optimizer.step();
  };
  auto fast =
      tenon::compile([&](const Tensor& x) { step(compiled, b, x); }, {.trust = Trust::pure, .name = "step", .watch = {compiled, watch(b)}});
  for (int i = 0; i < 16; ++i) {
    if (i == 6)
      for (auto* optimizer : {&a, &b}) static_cast<AdamWOptions&>(optimizer->param_groups()[0].options()).weight_decay(0.3);
    if (i == 11)  // The optimizer begins anew, with other tensors.
      for (auto* optimizer : {&a, &b}) optimizer->state().clear();
    Tensor x = torch::randn({3, 6});
    step(eager, a, x);
    fast(x);
    expect_equal_parameters(eager, compiled, i);
  }
  EXPECT_GE(explain(fast).answered, 4u) << explain(fast);
  torch::optim::Adagrad other(compiled->parameters());
  EXPECT_THROW(watch(other), UserError);
}

}  // namespace
}  // namespace tenon::test
