// Host overhead of checked replay. A backend that computes nothing replaces the graphs, so that the time is that
// of comparing ops, deferring them and filling placeholders. Measures CPU time on one thread, alternating with
// eager, on tensors so small that eager is host time too.
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

#include "bench/timing.h"
#include "capture/recorder.h"

using namespace tenon;
using bench::cpu_seconds;
using bench::report;
using bench::side_by_side;
using torch::Tensor;

namespace {

// Registers a backend that returns the results of its first run.
void register_nothing() {
  register_backend("nothing", [](const std::string&, Runner op_by_op) -> Runner {
    auto first = std::make_shared<std::vector<Tensor>>();
    return [=](std::vector<Tensor> in) {
      if (first->empty()) *first = op_by_op(std::move(in));
      return *first;
    };
  });
}

struct Block : torch::nn::Module {
  static constexpr int64_t kWidth = 32, kHeads = 4;
  torch::nn::LayerNorm norm1{torch::nn::LayerNormOptions({kWidth})}, norm2{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear qkv{kWidth, 3 * kWidth}, out{kWidth, kWidth}, up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};

  Block() {
    register_module("norm1", norm1);
    register_module("norm2", norm2);
    register_module("qkv", qkv);
    register_module("out", out);
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(Tensor x) {
    int64_t batch = x.size(0), length = x.size(1);
    auto parts = qkv(norm1(x)).view({batch, length, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    auto scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)) * (1 / std::sqrt(8.0));
    auto a = torch::matmul(torch::softmax(scores, -1), parts[2]);
    x = x + out(a.transpose(1, 2).reshape({batch, length, kWidth}));
    return x + down(torch::gelu(up(norm2(x))));
  }
};

struct Net : torch::nn::Module {
  torch::nn::Embedding table{100, Block::kWidth};
  std::vector<std::shared_ptr<Block>> blocks;
  torch::nn::Linear head{Block::kWidth, 100};

  Net() {
    register_module("table", table);
    for (int i = 0; i < 4; ++i) blocks.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>()));
    register_module("head", head);
  }
  Tensor forward(Tensor ids, Tensor targets) {
    auto x = table(ids);
    for (auto& block : blocks) x = block->forward(x);
    return torch::cross_entropy_loss(head(x).view({-1, 100}), targets.view({-1}));
  }
};

struct Counts {
  size_t calls, ops;  // Calls as the user's C++ makes them, and ops below autograd.
};

template <class F>
Counts count(F&& f) {
  capture::Recorder recorder({});
  capture::ListenScope listen(&recorder);
  f();
  return {recorder.tape().calls, recorder.tape().ops.size()};
}

}  // namespace

// `bench_replay no_grad` runs one benchmark only.
int main(int argc, char** argv) {
  auto chosen = [&](const char* part) { return argc < 2 || std::string(argv[1]) == part; };
  at::set_num_threads(1);
  torch::manual_seed(0);
  register_nothing();
  Net net;
  auto ids = torch::randint(0, 100, {1, 4}), targets = torch::randint(0, 100, {1, 4});
  auto forward = [&] { return net.forward(ids, targets); };
  auto warm = [](auto& f) {
    for (int i = 0; i < 5; ++i) f();
  };
  if (chosen("no_grad")) {
    torch::NoGradGuard off;
    auto fast = tenon::compile(forward, {.backend = "nothing"});
    warm(fast);
    size_t ops = count(forward).calls;
    auto times = side_by_side({[&] { forward(); }, [&] { fast(); }}, 41, 20);
    report("replay_no_grad", times[1] * 1e6 / static_cast<double>(ops), "us an op", times[0] / ops, times[1] / ops);
  }
  if (chosen("grad")) {
    auto fast = tenon::compile(forward, {.backend = "nothing"});
    warm(fast);
    size_t ops = count(forward).ops;
    auto times = side_by_side({[&] { forward(); }, [&] { fast(); }}, 41, 20);
    report("replay_grad_forward", times[1] * 1e6 / static_cast<double>(ops), "us an op", times[0] / ops, times[1] / ops);
  }
  torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(1e-3));
  if (chosen("step")) {
    double parts[3] = {};
    auto step = [&] {
      double start = cpu_seconds();
      optimizer.zero_grad();
      auto loss = forward();
      double middle = cpu_seconds();
      loss.backward();
      double end = cpu_seconds();
      optimizer.step();
      parts[0] += middle - start, parts[1] += end - middle, parts[2] += cpu_seconds() - end;
      return loss.detach();
    };
    auto fast = tenon::compile(step, {.backend = "nothing"});
    warm(fast);
    warm(step);
    auto part_times = [&](auto& f) {
      std::vector<std::vector<double>> all(3);
      for (int i = 0; i < 60; ++i) {
        std::fill(parts, parts + 3, 0.0);
        f();
        for (int k = 0; k < 3; ++k) all[k].push_back(parts[k]);
      }
      std::vector<double> medians;
      for (auto& list : all) {
        std::nth_element(list.begin(), list.begin() + 30, list.end());
        medians.push_back(list[30]);
      }
      return medians;
    };
    auto ours = part_times(fast), eager = part_times(step);
    double optimizer_ops = 9.0 * static_cast<double>(net.parameters().size());
    report("replay_optimizer", ours[2] * 1e6 / optimizer_ops, "us an op", eager[2] / optimizer_ops, ours[2] / optimizer_ops);
    report("replay_backward", ours[1] / eager[1], "x eager", eager[1], ours[1]);
    auto times = side_by_side({[&] { step(); }, [&] { fast(); }}, 31, 5);
    report("replay_whole_step", times[1] / times[0], "x eager", times[0], times[1]);
    std::fprintf(stderr, "%s", tenon::explain(fast).text().c_str());
  }
}
