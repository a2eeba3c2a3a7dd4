// Two threads call a model while another thread loads, replaces and removes adapters: adapters_threads BASE SECONDS ADAPTER ADAPTER
// ADAPTER. The first adapter stays loaded; the name "hot" is the second one, the third one or not loaded. Every result must be correct for
// some moment of its call.
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/TensorOperators.h>
#include <tenon/adapters.h>
#include <tenon/control.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/error.h"

using namespace tenon;

int main(int count, char** arguments) try {
  if (count != 6) return std::fprintf(stderr, "adapters_threads BASE SECONDS ADAPTER ADAPTER ADAPTER\n"), 2;
  at::NoGradGuard no_grad;
  auto model = load_model(arguments[1]);
  at::Tensor input = at::randint(3, 60, {4, 6}, at::detail::createCPUGenerator(1), at::kLong);
  Bank bank(model);
  auto run = compile(model, {.fullgraph = true});
  bank.load("stays", arguments[3]);
  std::vector<at::Tensor> right;  // The results with the second and with the third adapter.
  for (int i : {4, 5}) {
    bank.load("hot", arguments[i]);
    for (int k = 0; k < 4; ++k) run(input, bank.rows({"stays", "hot", kBase, "hot"}));
    right.push_back(run(input, bank.rows({"stays", "hot", kBase, "hot"})).clone());
  }
  std::atomic<bool> done = false;
  std::atomic<size_t> calls = 0, refused = 0, wrong = 0, changes = 0;
  auto call = [&] {
    at::NoGradGuard inner;
    while (!done) {
      try {
        at::Tensor out = run(input, bank.rows({"stays", "hot", kBase, "hot"}));
        ++calls;
        if (!at::equal(out, right[0]) && !at::equal(out, right[1])) ++wrong;
      } catch (const UserError&) {
        ++refused;
      }
    }
  };
  std::thread first(call), second(call);
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(arguments[2]));
  for (int i = 0; std::chrono::steady_clock::now() < end; ++i, ++changes) {
    bank.load("hot", arguments[4 + i % 2]);
    bank.load("other" + std::to_string(i % 7), arguments[3 + i % 3]);
    if (i % 5 == 4) bank.remove("hot");
    if (i % 7 == 6)
      for (int k = 0; k < 7; ++k) bank.remove("other" + std::to_string(k));
  }
  done = true;
  first.join(), second.join();
  std::printf("calls %zu refused %zu changes %zu wrong %zu\n", calls.load(), refused.load(), changes.load(), wrong.load());
  return wrong > 0 || calls == 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
