// state_walks: random walks over random modules with hidden state. After every action the eager and the compiled module are
// called; outputs, gradients, state and generator must agree.
//
//   --seconds N   stop after N seconds    --count N   stop after N walks
//   --seed S      the first seed          --one S     run only this walk and print every action
//   --backend B   use this backend (default: alternates between all)
#include <ATen/autocast_mode.h>
#include <ATen/Parallel.h>
#include <tenon/compile.h>
#include <tenon/control.h>
#include <tenon/inspect.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "support/compare.h"
#include "support/program.h"
#include "walks/walker.h"

namespace tenon::walks {
namespace {

constexpr int kActions = 20;

struct Outcome {
  Tensors results, gradients, state;
  Tensor generator;
  std::string error;
};

Tensor make_input(uint64_t seed, const CallContext& context) {
  torch::manual_seed(seed);
  int64_t samples = context.wide ? 5 : 3;
  Tensor x = context.transposed ? torch::randn({6, samples + 2}).t() : torch::randn({samples + 2, 6});
  x = x.narrow(0, context.offset ? 2 : 0, samples);
  return x.detach().requires_grad_(context.requires_grad);
}

Outcome call(Walker& walker, uint64_t seed, const CallContext& context, const std::function<Tensor(const Tensor&)>& function) {
  Outcome out;
  Tensor x = make_input(seed, context);
  for (Tensor& p : walker.parameters())
    if (!context.keep_gradients) p.mutable_grad().reset();
  torch::manual_seed(seed + 1);
  try {
    c10::InferenceMode inference(context.inference);
    at::AutoGradMode grad(context.grad && !context.inference);
    at::autocast::set_autocast_enabled(at::kCPU, context.autocast);
    out.results.push_back(function(x));
  } catch (const std::exception& error) {
    out.error = std::string(error.what()).substr(0, 80);
  }
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  out.generator = test::generator_state();
  if (out.error.empty() && out.results[0].requires_grad()) out.results[0].to(torch::kFloat).pow(2).sum().backward();
  for (Tensor& p : walker.parameters()) out.gradients.push_back(p.grad());
  out.gradients.push_back(x.grad());
  for (const Tensor& t : walker.state()) out.state.push_back(t.detach().clone());
  return out;
}

std::string compare(const Outcome& e, const Outcome& g) {
  if (e.error != g.error) return "error '" + g.error + "' instead of '" + e.error + "'";
  if (std::string d = test::difference(e.results, g.results, "result"); !d.empty()) return d;
  if (std::string d = test::difference(e.gradients, g.gradients, "gradient"); !d.empty()) return d;
  if (std::string d = test::difference(e.state, g.state, "state"); !d.empty()) return d;
  if (!torch::equal(e.generator, g.generator)) return "the state of the generator differs";
  return "";
}

struct Totals {
  uint64_t walks = 0, wrong = 0, calls = 0, served = 0;
};

// With `backward_inside`, the function differentiates its own result.
Tensor run(Walker& walker, const CallContext& context, const Tensor& x) {
  Tensor y = walker.forward(x);
  if (!context.backward_inside || !y.requires_grad()) return y;
  y.to(torch::kFloat).pow(2).sum().backward();
  return y.detach();
}

void walk(uint64_t seed, const std::string& fixed_backend, bool print, Totals& totals) {
  Random random(seed), copy(seed);
  torch::manual_seed(seed);
  Walker plain(random);
  torch::manual_seed(seed);
  Walker compiled(copy);
  CallContext context;
  static const std::vector<std::string> backends = test::graph_backends();
  const std::string& backend = fixed_backend.empty() ? backends[seed % backends.size()] : fixed_backend;
  auto fast = tenon::compile([&](const Tensor& x) { return run(compiled, context, x); }, {.backend = backend});
  uint64_t quarantined = tenon::stats().quarantined;
  ++totals.walks;
  std::vector<std::string> actions;
  for (int i = 0; i < kActions; ++i) {
    actions.push_back(act(random, plain, compiled, context));
    if (print) std::cout << i << ": " << actions.back() << std::endl;
    for (int k = 0; k < 3; ++k) {  // The first call records, the second replays, the third is served by a graph.
      uint64_t data = seed * 1000 + static_cast<uint64_t>(i * 3 + k);
      Outcome expected = call(plain, data, context, [&](const Tensor& x) { return run(plain, context, x); });
      Outcome got = call(compiled, data, context, [&](const Tensor& x) { return fast(x); });
      std::string d = compare(expected, got);
      if (d.empty() && tenon::stats().quarantined > quarantined) d = "a kernel differs from ATen";
      ++totals.calls;
      if (d.empty()) continue;
      ++totals.wrong;
      std::cout << "STALE: seed " << seed << ", after action " << i << ", call " << k << ": " << d << "\n";
      for (const Layer& layer : plain.layers) std::cout << " layer " << static_cast<int>(layer.kind);
      std::cout << "\n";
      for (const std::string& action : actions) std::cout << "  " << action << "\n";
      std::cout << tenon::explain(fast) << std::endl;
      return;
    }
  }
  totals.served += tenon::explain(fast).answered;
}

}  // namespace
}  // namespace tenon::walks

int main(int argc, char** argv) {
  setenv("TENON_CHECK_TEXT", "1", 1);
  setenv("TENON_INTERNAL_ERRORS", "raise", 1);  // A graph that cannot be built fails the test.
  setenv("TENON_CHECK_KERNELS", "1", 1);
  at::set_num_threads(1);
  double seconds = 60;
  uint64_t count = UINT64_MAX, seed = 1;
  bool one = false;
  std::string backend;
  if (const char* text = std::getenv("TENON_SEED")) seed = std::strtoull(text, nullptr, 10);
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string flag = argv[i];
    if (flag == "--seconds") seconds = std::atof(argv[i + 1]);
    else if (flag == "--count") count = std::strtoull(argv[i + 1], nullptr, 10), seconds = 1e9;
    else if (flag == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    else if (flag == "--backend") backend = argv[i + 1];
    else if (flag == "--one") one = true, count = 1, seconds = 1e9, seed = std::strtoull(argv[i + 1], nullptr, 10);
    else return std::cerr << "unknown flag " << flag << "\n", 2;
  }
  std::cout << "first seed " << seed << std::endl;
  tenon::walks::Totals totals;
  auto start = std::chrono::steady_clock::now();
  auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  for (uint64_t i = 0; i < count && totals.wrong < 5 && spent() < seconds; ++i) tenon::walks::walk(seed + i, backend, one, totals);
  std::cout << totals.walks << " walks, " << totals.calls << " calls, " << totals.served << " served by graphs, " << totals.wrong
            << " stale, first seed " << seed << std::endl;
  return totals.wrong > 0;
}
