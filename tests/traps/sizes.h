// A trap whose sizes change from call to call, in a way that its first calls do not show. It runs in eager mode and compiled; results,
// inputs, state and gradients must have equal bits in each call.
#pragma once

#include <gtest/gtest.h>
#include <tenon/control.h>

#include <functional>
#include <string>
#include <vector>

#include "support/compare.h"
#include "support/program.h"

namespace tenon::test {

using Sizes = std::vector<int64_t>;

struct SizesTrap {
  virtual ~SizesTrap() = default;
  // Returns new data for a call with these sizes.
  virtual Tensors inputs(const Sizes& sizes) = 0;
  // Depends only on the inputs and on watch(), so that Trust::pure may be declared.
  virtual Tensors run(const Tensors& in) = 0;
  virtual Tensors state() { return {}; }
  virtual std::vector<Watched> watch() { return {}; }
  // Largest relative difference from eager. 0 means equal bits.
  virtual double tolerance() { return 0; }
};

struct SizesOutcome {
  Tensors results, inputs, state, gradients;
  torch::Tensor generator;
  std::string error;
};

inline SizesOutcome call_at_sizes(SizesTrap& trap, const Sizes& sizes, uint64_t seed, bool grad_mode,
                                  const std::function<Tensors(const Tensors&)>& function) {
  SizesOutcome out;
  for (const torch::Tensor& t : trap.state())
    if (t.defined() && t.is_leaf()) t.mutable_grad().reset();
  torch::manual_seed(seed);
  out.inputs = trap.inputs(sizes);
  try {
    at::AutoGradMode mode(grad_mode);
    out.results = function(out.inputs);
  } catch (const std::exception& error) {
    std::string text = error.what();
    out.error = text.substr(0, text.find('\n'));
  }
  out.generator = generator_state();
  Tensors outputs, tangents;
  for (const torch::Tensor& t : out.results) {
    if (!t.defined() || !t.requires_grad() || t.is_leaf()) continue;
    outputs.push_back(t);
    tangents.push_back(torch::randn(t.sizes(), t.options().requires_grad(false)));
  }
  if (!outputs.empty()) torch::autograd::backward(outputs, tangents);
  out.state = trap.state();
  for (const Tensors* list : {&out.inputs, &out.state})
    for (const torch::Tensor& t : *list) out.gradients.push_back(t.defined() && t.is_leaf() ? t.grad() : torch::Tensor());
  return out;
}

inline std::string difference_within(const Tensors& expected, const Tensors& got, const std::string& what, double tolerance) {
  if (tolerance == 0 || expected.size() != got.size()) return difference(expected, got, what);
  for (size_t i = 0; i < expected.size(); ++i) {
    const torch::Tensor &a = expected[i], &b = got[i];
    bool agree = a.defined() == b.defined() && (!a.defined() || (a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type()));
    if (agree && a.defined()) agree = torch::allclose(a.detach(), b.detach(), tolerance, tolerance / 10, /*equal_nan=*/true);
    if (!agree) return what + " " + std::to_string(i) + " differs";
  }
  return "";
}

inline std::string compare_outcomes(const SizesOutcome& e, const SizesOutcome& g, double tolerance) {
  if (e.error != g.error) return "error '" + g.error + "' instead of '" + e.error + "'";
  std::string d = difference_within(e.results, g.results, "result", tolerance);
  if (d.empty()) d = difference_within(e.inputs, g.inputs, "input", tolerance);
  if (d.empty()) d = difference_within(e.state, g.state, "state", tolerance);
  if (d.empty()) d = difference_within(e.gradients, g.gradients, "gradient", tolerance);
  auto memory = [](const SizesOutcome& outcome) {
    Tensors all = outcome.inputs;
    all.insert(all.end(), outcome.results.begin(), outcome.results.end());
    return sharing(all);
  };
  if (d.empty() && memory(e) != memory(g)) d = "results share memory differently";
  if (d.empty() && !torch::equal(e.generator, g.generator)) d = "the state of the generator differs";
  return d;
}

// Grad mode of call i is the bit i % 4 of `grad_modes`.
struct SizesRun {
  const char* backend;
  Dynamic dynamic;
  unsigned grad_modes;
};

// Makes the calls in their order and then again, so that each size comes at least twice.
template <class T>
void compare_at_sizes(Trust trust, const std::vector<Sizes>& calls, bool is_served = true) {
  for (const SizesRun& run : {SizesRun{"native", Dynamic::automatic, 0b1111}, SizesRun{"native", Dynamic::automatic, 0b0000},
                              SizesRun{"native", Dynamic::yes, 0b0110}, SizesRun{"aten", Dynamic::automatic, 0b0110}}) {
    SCOPED_TRACE(std::string(run.backend) + ", grad modes " + std::to_string(run.grad_modes));
    torch::manual_seed(1);
    T eager;
    torch::manual_seed(1);
    T compiled;
    // A program that departs from its recordings at each size is not left to eager mode.
    constexpr size_t kRecompileLimit = 64;
    auto fast = tenon::compile([&](const Tensors& in) { return compiled.run(in); }, {.backend = run.backend,
                                                                                     .trust = trust,
                                                                                     .name = "sizes",
                                                                                     .watch = compiled.watch(),
                                                                                     .recompile_limit = kRecompileLimit,
                                                                                     .dynamic = run.dynamic});
    Stats before = stats();
    for (size_t i = 0; i < 2 * calls.size(); ++i) {
      const Sizes& sizes = calls[i % calls.size()];
      bool grad_mode = (run.grad_modes >> i % 4) % 2 == 1;
      SizesOutcome expected = call_at_sizes(eager, sizes, 100 + i, grad_mode, [&](const Tensors& in) { return eager.run(in); });
      SizesOutcome got = call_at_sizes(compiled, sizes, 100 + i, grad_mode, [&](const Tensors& in) { return fast(in); });
      ASSERT_EQ(compare_outcomes(expected, got, eager.tolerance()), "") << "call " << i << ", sizes " << c10::IntArrayRef(sizes) << "\n"
                                                                        << tenon::explain(fast).text();
    }
    Explanation why = tenon::explain(fast);
    // Where kernels are compared with ATen, the program continues with ATen's results, so a wrong kernel shows only here.
    EXPECT_EQ(stats().quarantined, before.quarantined) << why;
    EXPECT_EQ(stats().internal_errors, before.internal_errors) << why;
    if (is_served) EXPECT_GT(why.answered, 0u) << why;
  }
}

}  // namespace tenon::test
