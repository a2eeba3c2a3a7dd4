#include "random_programs/check.h"

#include <ATen/ops/_make_dual.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "support/compare.h"

namespace tenon::random_programs {
namespace {

using test::difference;
using test::generator_state;
using test::sharing;

struct Outcome {
  Tensors results, inputs, gradients, tangents;
  std::vector<bool> input_changed;  // Whether the version counter changed.
  Tensor generator;
  std::string error, backward_error;
};

std::string first_line(const std::exception& error) {
  std::string text = error.what();
  return text.substr(0, std::min<size_t>(text.find('\n'), 160));
}

void differentiate(const RandomProgram& program, const MadeInputs& made, Outcome& out) {
  Tensors outputs, tangents;
  torch::manual_seed(77);
  for (const Tensor& t : out.results) {
    if (!t.requires_grad() || !t.is_floating_point()) continue;
    outputs.push_back(t);
    tangents.push_back(torch::randn(t.sizes(), t.options().requires_grad(false)));
  }
  if (outputs.empty()) return;
  try {
    if (program.uses_backward) {
      torch::autograd::backward(outputs, tangents);
      for (const Tensor& leaf : made.leaves) out.gradients.push_back(leaf.grad());
    } else {
      out.gradients = torch::autograd::grad(outputs, made.leaves, tangents, std::nullopt, false, /*allow_unused=*/true);
    }
    // ATen's derivative of cummax and cummin returns the saved input itself, with its autograd history, if it has no elements.
    for (Tensor& t : out.gradients)
      if (t.defined() && t.numel() == 0) t = t.detach();
  } catch (const std::exception& error) {
    out.backward_error = first_line(error);
  }
}

// Adds tangents to the inputs for its lifetime.
class ForwardMode {
 public:
  explicit ForwardMode(Tensors& inputs) : level_(torch::autograd::ForwardADLevel::get_next_idx()) {
    for (Tensor& t : inputs)
      if (t.is_floating_point() && t.is_non_overlapping_and_dense())
        t = at::_make_dual(t, torch::ones_like(t).mul(0.5), static_cast<int64_t>(level_));
  }
  ~ForwardMode() { torch::autograd::ForwardADLevel::release_idx(level_); }

  Tensors tangents(const Tensors& results) const {
    Tensors out;
    for (const Tensor& t : results) {
      Tensor tangent = t.defined() ? t._fw_grad(level_) : Tensor();
      out.push_back(tangent.defined() ? tangent.detach().clone() : Tensor());
    }
    return out;
  }

 private:
  uint64_t level_;
};

// A thread that reads tensors while holding the lock of the program's steps.
class Reader {
 public:
  explicit Reader(Tensors tensors) : tensors_(std::move(tensors)), thread_([this] { run(); }) {}
  ~Reader() {
    stop_ = true;
    thread_.join();
  }

 private:
  void run() {
    while (!stop_) {
      for (const Tensor& t : tensors_) {
        std::lock_guard lock(step_mutex());
        if (t.numel() == 0) continue;
        const auto* bytes = static_cast<const volatile char*>(t.const_data_ptr());
        seen_ = seen_ + bytes[0] + bytes[t.itemsize() - 1];
      }
      std::this_thread::yield();
    }
  }

  Tensors tensors_;
  std::atomic<bool> stop_{false};
  int seen_ = 0;
  std::thread thread_;
};

Outcome run_call(const RandomProgram& program, int call, const std::function<Tensors(const Tensors&)>& function) {
  Outcome out;
  MadeInputs made = make_inputs(program, program.seed * 31 + static_cast<uint64_t>(call), call);
  std::optional<ForwardMode> forward;
  if (program.forward_mode) forward.emplace(made.arguments);
  out.inputs = made.arguments;
  std::optional<Reader> reader;
  if (program.beside_reader) reader.emplace(out.inputs);
  std::vector<int64_t> versions;
  for (const Tensor& t : out.inputs) versions.push_back(t._version());
  torch::manual_seed(500 + static_cast<uint64_t>(call));
  {
    at::AutoGradMode mode(program.grad_mode);
    try {
      out.results = function(out.inputs);
    } catch (const std::exception& error) {
      out.error = first_line(error);
    }
  }
  reader.reset();
  if (forward) out.tangents = forward->tangents(out.results);
  out.generator = generator_state();
  for (size_t i = 0; i < versions.size(); ++i) out.input_changed.push_back(out.inputs[i]._version() != versions[i]);
  if (out.error.empty() && !(program.skipped_gradients >> call & 1)) differentiate(program, made, out);
  return out;
}

Tensors joined(const Tensors& a, const Tensors& b) {
  Tensors all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

struct Difference {
  std::string kind, text;
};

Difference compare(const Outcome& e, const Outcome& g) {
  if (e.error.empty() != g.error.empty()) return {"error", "error '" + g.error + "' instead of '" + e.error + "'"};
  if (!e.error.empty()) return {};
  if (std::string d = difference(e.results, g.results, "result"); !d.empty()) return {"result", d};
  if (std::string d = difference(e.inputs, g.inputs, "input"); !d.empty()) return {"input", d};
  if (std::string d = difference(e.tangents, g.tangents, "tangent"); !d.empty()) return {"tangent", d};
  if (sharing(joined(e.inputs, e.results)) != sharing(joined(g.inputs, g.results))) return {"sharing", "results share memory differently"};
  if (!torch::equal(e.generator, g.generator)) return {"generator", "the state of the generator differs"};
  if (e.input_changed != g.input_changed) return {"version", "version counters of the inputs change differently"};
  if (e.backward_error.empty() != g.backward_error.empty())
    return {"backward error", "in backward: error '" + g.backward_error + "' instead of '" + e.backward_error + "'"};
  if (!e.backward_error.empty()) return {};
  if (std::string d = difference(e.gradients, g.gradients, "gradient"); !d.empty()) return {"gradient", d};
  return {};
}

// Returns whether a second run, and a run with each of ATen's loops, give the same outcome.
bool eager_agrees_with_itself(const RandomProgram& program, const std::vector<Outcome>& expected) {
  for (Loops loops : {Loops::as_laid_out, Loops::vector, Loops::scalar})
    for (size_t call = 0; call < expected.size(); ++call) {
      Outcome again = run_call(program, static_cast<int>(call), [&](const Tensors& in) { return execute(program, in, loops); });
      if (!compare(expected[call], again).kind.empty()) return false;
    }
  return true;
}

}  // namespace

Verdict check(const RandomProgram& program, const std::string& configuration) {
  std::string backend = configuration.substr(0, configuration.find(':'));
  Trust trust = backend == configuration ? Trust::checked : Trust::pure;
  Verdict verdict;
  if (program.reads_on_host && trust == Trust::pure) {
    verdict.served = true;
    return verdict;
  }
  auto plain = [&program](const Tensors& in) { return execute(program, in); };
  auto fast = tenon::compile(plain, {.backend = backend, .trust = trust, .name = "seed" + std::to_string(program.seed)});
  std::vector<Outcome> expected, got;
  auto note = [&](int call, const Difference& d) {
    verdict.kind = d.kind;
    verdict.difference = configuration + ", call " + std::to_string(call) + ", " + d.text;
  };
  for (int call = 0; call < program.calls && verdict.kind.empty(); ++call) {
    expected.push_back(run_call(program, call, plain));
    got.push_back(run_call(program, call, fast));
    note(call, compare(expected.back(), got.back()));
  }
  // Later calls must not change the results of earlier ones.
  for (int call = 0; call < program.calls && verdict.kind.empty(); ++call)
    if (std::string d = difference(expected[call].results, got[call].results, "result"); !d.empty())
      note(call, {"overwritten", "after later calls: " + d});
  Explanation why = tenon::explain(fast);
  verdict.served = why.answered > 0;
  verdict.obstacles = why.obstacles;
  for (const Explanation::Recompile& r : why.recompiles) verdict.obstacles.push_back("recompiled: " + r.guard + " " + r.detail);
  for (const std::string& obstacle : why.obstacles)
    if (verdict.kind.empty() && obstacle.find("is quarantined") != std::string::npos) note(program.calls, {"kernel", obstacle});
  if (!verdict.kind.empty()) {
    verdict.explanation = why.text();
    for (const Explanation::Graph& graph : why.graphs) verdict.explanation += graph.served_as + ":\n" + graph.text;
    verdict.unstable = !eager_agrees_with_itself(program, expected);
  }
  return verdict;
}

}  // namespace tenon::random_programs
