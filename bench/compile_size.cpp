// Compile time by program size: CPU seconds until a program of N ops is served by graphs, minus the time of the eager calls.
//   compile_size PROGRAM N [TRUST]     PROGRAM: chain, mixed, cat, slices, layers, train; TRUST: checked (no grad), grad, pure
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>

namespace {

using torch::Tensor;
using Program = std::function<Tensor(Tensor)>;

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A chain of equal ops with different constants, half of them transcendental.
Tensor chain(Tensor x, int ops) {
  for (int i = 0; i < ops / 2; ++i) x = torch::sin(x) + 0.001 * i;
  return x;
}

// A program whose kernels are all different.
Tensor mixed(Tensor x, int ops) {
  for (int i = 0; i < ops; ++i) {
    switch ((i * i + i / 7) % 5) {
      case 0:
        x = torch::tanh(x);
        break;
      case 1:
        x = x * 1.01;
        break;
      case 2:
        x = torch::exp(-x.abs());
        break;
      case 3:
        x = torch::sigmoid(x + 0.5);
        break;
      default:
        x = x - 0.1;
    }
  }
  return x;
}

Tensor pieces(Tensor x, int count) {
  std::vector<Tensor> all;
  for (int i = 0; i < count; ++i) all.push_back(x.narrow(0, i % x.size(0), 1) * 2);
  return torch::cat(all);
}

// The gradient is a sum with one summand per slice.
Tensor slices_and_gradient(Tensor x, int count) {
  x = x.detach().requires_grad_();
  std::vector<Tensor> all;
  for (int i = 0; i < count; ++i) all.push_back(x.slice(0, i, i + 2));
  torch::cat(all).pow(2).sum().backward();
  return x.grad();
}

struct Layers : torch::nn::Module {
  std::vector<torch::nn::Linear> linear;
  std::vector<torch::nn::LayerNorm> norm;
  explicit Layers(int count) {
    for (int i = 0; i < count; ++i) {
      linear.push_back(register_module("linear" + std::to_string(i), torch::nn::Linear(8, 8)));
      norm.push_back(register_module("norm" + std::to_string(i), torch::nn::LayerNorm(torch::nn::LayerNormOptions({8}))));
    }
  }
  Tensor forward(Tensor x) {
    for (size_t i = 0; i < linear.size(); ++i) x = x + torch::relu(linear[i](norm[i](x)));
    return x;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::string what = argv[1], trust = argc > 3 ? argv[3] : "pure";
  int size = std::atoi(argv[2]);
  at::set_num_threads(1);
  torch::manual_seed(1);
  auto net = std::make_shared<Layers>(what == "layers" || what == "train" ? size : 0);
  Program program = [&](Tensor x) {
    if (what == "chain") return chain(x, size);
    if (what == "mixed") return mixed(x, size);
    if (what == "cat") return pieces(x, size);
    if (what == "slices") return slices_and_gradient(x, size);
    if (what == "layers") return net->forward(x);
    Tensor loss = net->forward(x).pow(2).mean();
    for (Tensor& p : net->parameters()) p.mutable_grad().reset();
    loss.backward();
    torch::NoGradGuard no_grad;
    for (Tensor& p : net->parameters()) p.sub_(p.grad() * 0.01);
    return loss.detach();
  };
  torch::AutoGradMode mode(trust == "grad" || what == "train" || what == "slices");
  auto fast = tenon::compile(program, {.trust = trust == "pure" ? tenon::Trust::pure : tenon::Trust::checked, .watch = {net}});
  Tensor x = torch::randn({what == "slices" ? size + 2 : what == "cat" ? 64 : 4, 8});
  double start = cpu_seconds();
  for (int i = 0; i < 4; ++i) program(x);
  double eager = cpu_seconds() - start, longest = 0;
  start = cpu_seconds();
  for (int i = 0; i < 4; ++i) {
    double before = cpu_seconds();
    fast(x);
    longest = std::max(longest, cpu_seconds() - before);
  }
  tenon::Explanation why = tenon::explain(fast);
  std::cout << what << " " << size << " " << trust << ": " << cpu_seconds() - start - eager << " s above eager, longest call " << longest
            << " s, " << why.answered << " served by graphs;";
  for (auto& [phase, seconds] : why.phases) std::cout << " " << phase << " " << seconds;
  std::cout << std::endl;
}
