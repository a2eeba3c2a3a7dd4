// 200 compiled training steps give the losses of eager within the numeric policy, and repeating them gives bitwise equal
// losses.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>

#include <cmath>

#include "bench/models/gpt2.h"

namespace tenon::test {
namespace {

using torch::Tensor;
constexpr int kSteps = 200, kSeeds = 3;

using Tensors = std::vector<Tensor>;

// A model and its training data.
struct Task {
  virtual ~Task() = default;
  virtual torch::nn::Module& model() = 0;
  virtual Tensors batch() = 0;
  virtual Tensor loss(const Tensors& batch) = 0;
};

struct Gpt2Task : Task {
  bench::Gpt2 net{bench::Gpt2Sizes{.layers = 2, .width = 64, .heads = 4, .vocabulary = 96, .positions = 32}};
  torch::nn::Module& model() override { return *net; }
  Tensors batch() override { return {(torch::randint(96, {4, 1}) + torch::arange(24) * 7) % 96}; }
  Tensor loss(const Tensors& in) override { return net->loss(in[0]); }
};

struct CnnTask : Task {
  torch::nn::Sequential net{torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)),
                            torch::nn::BatchNorm2d(16),
                            torch::nn::ReLU(),
                            torch::nn::MaxPool2d(2),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)),
                            torch::nn::BatchNorm2d(32),
                            torch::nn::ReLU(),
                            torch::nn::AdaptiveAvgPool2d(1),
                            torch::nn::Flatten(),
                            torch::nn::Linear(32, 10)};
  torch::nn::Module& model() override { return *net; }
  Tensors batch() override {
    Tensor classes = torch::randint(10, {8});
    return {torch::randn({8, 3, 16, 16}) + classes.view({8, 1, 1, 1}) * 0.2, classes};
  }
  Tensor loss(const Tensors& in) override { return torch::nn::functional::cross_entropy(net->forward(in[0]), in[1]); }
};

struct LstmTask : Task {
  struct Net : torch::nn::Module {
    torch::nn::LSTM lstm{torch::nn::LSTMOptions(8, 32).num_layers(2).batch_first(true)};
    torch::nn::Linear out{32, 1};
    Net() { register_module("lstm", lstm), register_module("out", out); }
  } net;
  torch::nn::Module& model() override { return net; }
  Tensors batch() override {
    Tensor x = torch::randn({6, 12, 8});
    return {x, x.mean({1, 2}).unsqueeze(1) * 3};
  }
  Tensor loss(const Tensors& in) override { return torch::mse_loss(net.out(std::get<0>(net.lstm(in[0])).select(1, -1)), in[1]); }
};

using Curve = std::vector<double>;

template <class T>
Curve train(int seed, torch::ScalarType dtype, bool compiled) {
  torch::manual_seed(seed);
  T task;
  task.model().to(dtype);
  torch::optim::AdamW optimizer(task.model().parameters(), torch::optim::AdamWOptions(1e-3));
  auto step = [&](const Tensors& batch) {
    optimizer.zero_grad();
    Tensor loss = task.loss(batch);
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  auto fast = compile(step);
  Curve curve;
  for (int i = 0; i < kSteps; ++i) {
    torch::manual_seed(1000 * seed + i);
    Tensors batch = task.batch();
    for (Tensor& t : batch)
      if (t.is_floating_point()) t = t.to(dtype);
    curve.push_back((compiled ? fast(batch) : step(batch)).template item<double>());
  }
  if (compiled) EXPECT_GT(explain(fast).answered, kSteps / 2u) << explain(fast);
  return curve;
}

double squares(const Curve& a, const Curve& b) {
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

template <class T>
void check_curves() {
  double ours = 0, eagers = 0, scale = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Curve truth = train<T>(seed, torch::kDouble, false), eager = train<T>(seed, torch::kFloat, false);
    Curve got = train<T>(seed, torch::kFloat, true);
    EXPECT_EQ(got, train<T>(seed, torch::kFloat, true)) << "a repeated run differs";
    EXPECT_LT(got.back(), got.front() * 0.9) << "the loss does not decrease";
    if (got == eager) std::printf("seed %d: bitwise equal to eager\n", seed);
    ours += squares(got, truth);
    eagers += squares(eager, truth);
    for (double loss : truth) scale = std::max(scale, std::fabs(loss));
  }
  double count = kSteps * kSeeds, rms = std::sqrt(ours / count), rms_eager = std::sqrt(eagers / count);
  std::printf("RMS error of the losses %.3g, of eager %.3g\n", rms, rms_eager);
  EXPECT_LE(rms, 1.25 * rms_eager + std::ldexp(0x1p-23, std::ilogb(scale)));
}

TEST(Curves, Gpt2) { check_curves<Gpt2Task>(); }
TEST(Curves, Cnn) { check_curves<CnnTask>(); }
TEST(Curves, Lstm) { check_curves<LstmTask>(); }

}  // namespace
}  // namespace tenon::test
