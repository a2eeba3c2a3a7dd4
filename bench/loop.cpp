// Training loops as people write them: zero_grad, forward, loss, backward, step with AdamW. `bench_loop [rounds]` compares eager
// with three ways to compile: compile(model) in the ordinary loop, the same with compile(optimizer), and the whole step as one
// compiled function. One thread, its CPU time; all four take turns. Prints one JSON line per form and network.
#include <ATen/Parallel.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <tenon/optimizer.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "bench/models/gpt2.h"
#include "bench/models/small.h"
#include "bench/timing.h"

using namespace tenon;
using namespace tenon::bench;
using torch::Tensor;

namespace {

// Two convolutions with batch norm on images of 32 x 32.
struct CnnImpl : torch::nn::Module {
  CnnImpl()
      : conv1(torch::nn::Conv2dOptions(3, 32, 3).padding(1)),
        conv2(torch::nn::Conv2dOptions(32, 64, 3).stride(2).padding(1)),
        norm1(32),
        norm2(64),
        out(64, 10) {
    register_module("conv1", conv1), register_module("conv2", conv2), register_module("norm1", norm1);
    register_module("norm2", norm2), register_module("out", out);
  }
  Tensor forward(const Tensor& images) {
    Tensor x = torch::relu(norm2(conv2(torch::relu(norm1(conv1(images))))));
    return out(x.mean({2, 3}));
  }
  torch::nn::Conv2d conv1, conv2;
  torch::nn::BatchNorm2d norm1, norm2;
  torch::nn::Linear out;
};
TORCH_MODULE(Cnn);

struct LstmImpl : torch::nn::Module {
  LstmImpl() : lstm(torch::nn::LSTMOptions(64, 128).batch_first(true)), out(128, 10) {
    register_module("lstm", lstm), register_module("out", out);
  }
  Tensor forward(const Tensor& x) { return out(std::get<0>(lstm(x)).select(1, -1)); }
  torch::nn::LSTM lstm;
  torch::nn::Linear out;
};
TORCH_MODULE(Lstm);

Tensor loss_of(const Tensor& logits, const Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits.reshape({-1, logits.size(-1)}), targets.reshape(-1));
}

// A model with its optimizer.
template <class Model>
struct Training {
  explicit Training(Model m) : model(std::move(m)), optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3)) {}
  Model model;
  torch::optim::AdamW optimizer;
};

template <class Make>
void bench_network(const std::string& name, Make make, const Tensor& x, const Tensor& y, int rounds, int steps) {
  using Model = decltype(make());
  auto train = [&] {
    torch::manual_seed(1);
    return Training<Model>(make());
  };
  Training<Model> eager = train(), loop = train(), both = train(), whole = train();
  auto model = compile(loop.model, {.name = name}), model2 = compile(both.model, {.name = name});
  auto update = compile(both.optimizer, {.name = name + " optimizer"});
  auto step = compile(
      [&](const Tensor& in, const Tensor& targets) {
        whole.optimizer.zero_grad();
        Tensor loss = loss_of(whole.model->forward(in), targets);
        loss.backward();
        whole.optimizer.step();
        return loss;
      },
      {.name = name + " step"});
  std::vector<std::function<void()>> forms = {
      [&] {
        eager.optimizer.zero_grad();
        loss_of(eager.model->forward(x), y).backward();
        eager.optimizer.step();
      },
      [&] {
        loop.optimizer.zero_grad();
        loss_of(model(x), y).backward();
        loop.optimizer.step();
      },
      [&] {
        both.optimizer.zero_grad();
        loss_of(model2(x), y).backward();
        update();
      },
      [&] { step(x, y); },
  };
  for (int i = 0; i < 4; ++i)
    for (auto& form : forms) form();
  std::vector<double> seconds = side_by_side(forms, rounds, steps);
  const char* names[] = {"", " compile(model)", " compile(model), compile(optimizer)", " whole step"};
  for (size_t i = 1; i < forms.size(); ++i) report((name + names[i]).c_str(), seconds[0] / seconds[i], "x eager", seconds[0], seconds[i]);
  if (std::getenv("BENCH_EXPLAIN")) std::cerr << explain(model) << explain(update) << explain(step);
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  torch::manual_seed(0);
  int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  auto targets = [](c10::IntArrayRef sizes, int64_t classes) { return torch::randint(classes, sizes); };
  bench_network(
      "MLP",
      [] {
        return Mlp(std::vector<int64_t>{64, 128, 128, 10});
      },
      torch::randn({32, 64}), targets({32}, 10), rounds, 40);
  bench_network(
      "CNN", [] { return Cnn(); }, torch::randn({32, 3, 32, 32}), targets({32}, 10), rounds, 2);
  bench_network(
      "LSTM", [] { return Lstm(); }, torch::randn({32, 16, 64}), targets({32}, 10), rounds, 2);
  Gpt2Sizes sizes{.layers = 4, .width = 256, .heads = 8, .vocabulary = 1000, .positions = 64};
  bench_network(
      "GPT", [&] { return Gpt2(sizes); }, torch::randint(1000, {8, 64}), targets({8, 64}, 1000), rounds, 1);
}
