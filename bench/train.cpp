// Training LoRA on the query and value projections of a torch::nn Llama: bench_train ADAPTERS ROWS TOKENS ROUNDS. Three compiled
// programs alternate, each with its own AdamW: hand-written LoRA; one adapter of a bank for all batch rows; eight adapters, one per
// batch row. ADAPTERS contains tree0 to tree7. Prints one line of JSON: median milliseconds per step.
#include <tenon/adapters.h>
#include <tenon/control.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "bench/models/llama.h"
#include "bench/timing.h"

using namespace tenon;

namespace {

constexpr int64_t kRank = 8;

// A model with a bank whose adapters are assigned to batch rows round-robin.
struct Banked {
  Banked(const std::string& adapters, const std::vector<std::string>& names, int64_t count) : model(bench::LlamaSizes{}), bank(model) {
    for (at::Tensor& parameter : model->parameters()) parameter.set_requires_grad(false);
    std::vector<std::string> all;
    for (const std::string& name : names) bank.load(name, adapters + "/" + name);
    for (int64_t i = 0; i < count; ++i) all.push_back(names[static_cast<size_t>(i) % names.size()]);
    bank.train(names);
    rows = bank.rows(all);
    for (const std::string& name : names)
      for (const NamedTensor& parameter : bank.parameters(name)) parameters.push_back(parameter.value());
  }
  bench::Llama model;
  Bank bank;
  Rows rows{at::Tensor()};
  std::vector<at::Tensor> parameters;
};

template <class F>
double seconds_of_step(F&& loss, torch::optim::AdamW& optimizer) {
  return seconds_of([&] {
    loss().backward();
    optimizer.step();
    optimizer.zero_grad();
  });
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 5) return std::fprintf(stderr, "bench_train ADAPTERS ROWS TOKENS ROUNDS\n"), 2;
  int64_t rows = std::atol(arguments[2]), tokens = std::atol(arguments[3]);
  int rounds = std::atoi(arguments[4]);
  at::Tensor ids = at::arange(rows * tokens).mul(7919).remainder(31000).add(3).view({rows, tokens});
  bench::Llama by_hand(bench::LlamaSizes{.lora_rank = kRank});
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : by_hand->parameters())
    if (parameter.requires_grad()) parameters.push_back(parameter);
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) names.push_back("tree" + std::to_string(i));
  Banked one(arguments[1], {names[0]}, rows), eight(arguments[1], names, rows);
  auto hand = compile([&](const at::Tensor& x) { return by_hand->loss(x); }, {.fullgraph = true});
  auto through = [](Banked& banked) {
    auto loss = [&](const at::Tensor& x, const Rows& given) {
      auto scope = banked.bank.scope(given);
      return banked.model->loss(x);
    };
    return compile(loss, {.fullgraph = true});
  };
  auto with_one = through(one), with_eight = through(eight);
  torch::optim::AdamW hand_optimizer(parameters), one_optimizer(one.parameters), eight_optimizer(eight.parameters);
  std::vector<double> times[3];
  std::array<int, 3> order{0, 1, 2};  // All orders are used, because the previous program influences memory and caches.
  for (int i = -4; i < rounds; ++i) {
    for (int which : order) {
      double seconds = which == 0   ? seconds_of_step([&] { return hand(ids); }, hand_optimizer)
                       : which == 1 ? seconds_of_step([&] { return with_one(ids, one.rows); }, one_optimizer)
                                    : seconds_of_step([&] { return with_eight(ids, eight.rows); }, eight_optimizer);
      if (i >= 0) times[which].push_back(seconds * 1e3);
    }
    std::next_permutation(order.begin(), order.end());
  }
  std::printf("{\"hand_ms\": %.3f, \"one_ms\": %.3f, \"eight_ms\": %.3f}\n", bench::median(times[0]), bench::median(times[1]),
              bench::median(times[2]));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
