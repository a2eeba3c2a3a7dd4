#include "runtime/tuner.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "base/clock.h"
#include "bridge/convert.h"
#include "ir/graph/print.h"

namespace tenon::runtime {
namespace {

// Runs per alternative, and runs of the final comparison of the whole graph. More cost the user's first call; not measured.
constexpr size_t kTrialRuns = 8, kFinalRuns = 9;

// Fused ops that compute the same with the same sizes. They share one choice of form or machine code.
struct TuningSet {
  std::vector<const FusedOp*> ops;
  std::vector<size_t> nodes;                 // Indices of their nodes in the graph.
  std::vector<Form> forms;                   // Forms of a product; empty for a kernel.
  std::vector<std::vector<double>> seconds;  // Times per alternative and run.
  size_t initial = 0, best = 0;

  size_t alternatives() const { return seconds.size(); }
  void select(size_t alternative) const {
    for (const FusedOp* op : ops) {
      if (const ProductCall* call = op->product()) call->product->use(call->rows, forms[alternative]);
      else op->kernel()->code->store(alternative);
    }
  }
  void apply_best() const {
    select(best);
    for (const FusedOp* op : ops)
      if (op->product()) op->product()->product->drop_unused_packs();
  }
};

double median(std::vector<double> all) {
  auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

std::string key_of(const Interpreter& interpreter, const ir::Node& node, const FusedOp& op) {
  if (const KernelCall* kernel = op.kernel()) {
    std::string key = std::to_string(reinterpret_cast<uintptr_t>(kernel->codes[0].function));
    for (int64_t size : kernel->sizes) key += "," + std::to_string(size);
    return key;
  }
  std::string key = "product";
  for (size_t k = 1; k < node.args.size(); ++k) key += "," + ir::print(interpreter.type(std::get<ir::ValueId>(node.args[k])));
  return key;
}

std::vector<Form> forms_of(const Interpreter& interpreter, const ir::Node& node, const ProductCall& call) {
  const ir::FixedType& left = interpreter.type(std::get<ir::ValueId>(node.args[1]));
  return call.product->forms(bridge::from_dtype(left.dtype), call.rows, left.sizes[1]);
}

class Tuner {
 public:
  Tuner(const Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars)
      : interpreter_(interpreter), inputs_(inputs), scalars_(scalars), seconds_(interpreter.graph().nodes.size()) {}

  void run(double budget, const std::function<void(double)>& progress) {
    find_sets();
    if (sets_.empty()) return;
    size_t max_alternatives = 0;
    for (auto& [key, set] : sets_) max_alternatives = std::max(max_alternatives, set.alternatives());
    auto start = std::chrono::steady_clock::now();
    auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    size_t rounds = (kTrialRuns + 1) * max_alternatives, round = 0;
    // The first round of each alternative makes packs and is not timed.
    for (; round < rounds && spent() < budget * 0.8; ++round) {
      run_round(round, /*is_first=*/round < max_alternatives);
      progress(0.9 * static_cast<double>(round + 1) / static_cast<double>(rounds));
    }
    bool is_known = round >= 2 * max_alternatives;
    for (auto& [key, set] : sets_) set.best = is_known ? best_of(set) : set.initial;
    if (is_known) compare();
    for (auto& [key, set] : sets_) set.apply_best();
    progress(1);
  }

 private:
  void find_sets() {
    const ir::Graph& graph = interpreter_.graph();
    time_run();  // This run does the short trials of products, which must not be timed later.
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const FusedOp* op = interpreter_.fused_op(i);
      const ProductCall* product = op ? op->product() : nullptr;
      if (!op || (!product && !op->kernel())) continue;
      std::vector<Form> forms = product ? forms_of(interpreter_, graph.nodes[i], *product) : std::vector<Form>();
      size_t alternatives = product ? forms.size() : op->kernel()->codes.size();
      if (alternatives < 2) continue;
      TuningSet& set = sets_[key_of(interpreter_, graph.nodes[i], *op)];
      if (set.ops.empty()) {
        set.forms = forms;
        set.seconds.resize(alternatives);
        if (product) {
          Form form = product->product->form(product->rows);
          set.initial = static_cast<size_t>(std::find(forms.begin(), forms.end(), form) - forms.begin());
        }
      }
      set.ops.push_back(op);
      set.nodes.push_back(i);
    }
  }

  double time_run() {
    return seconds_of([&] { interpreter_.run(inputs_, RunMode::kernels, scalars_, &seconds_); });
  }

  // The alternatives of different sets are shifted against each other, so that a step is timed beside different neighbours.
  void run_round(size_t round, bool is_first) {
    size_t shift = 0;
    std::vector<size_t> alternatives;
    for (auto& [key, set] : sets_) {
      alternatives.push_back((round + (is_first ? 0 : shift++ * (round / 4))) % set.alternatives());
      set.select(alternatives.back());
    }
    time_run();
    if (is_first) return;
    size_t s = 0;
    for (auto& [key, set] : sets_) {
      double sum = 0;
      for (size_t node : set.nodes) sum += seconds_[node];
      set.seconds[alternatives[s++]].push_back(sum);
    }
  }

  // The fastest alternative, if it is at least 2 % faster than the initial one; otherwise the initial one.
  size_t best_of(const TuningSet& set) const {
    constexpr double kMaxTimeRatio = 0.98;  // Smaller gains are within the noise of one trial; not measured.
    std::vector<double> medians;
    for (const auto& seconds : set.seconds) medians.push_back(seconds.empty() ? 1e9 : median(seconds));
    auto best = static_cast<size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin());
    return medians[best] < kMaxTimeRatio * medians[set.initial] ? best : set.initial;
  }

  // Times the chosen and the initial alternatives of all sets in alternating runs. Unless the chosen ones are faster as a whole,
  // nothing changes.
  void compare() {
    std::vector<double> initial, chosen;
    for (size_t i = 0; i < kFinalRuns; ++i) {
      for (auto& [key, set] : sets_) set.select(set.initial);
      initial.push_back(time_run());
      for (auto& [key, set] : sets_) set.select(set.best);
      chosen.push_back(time_run());
    }
    if (median(chosen) < median(initial)) return;
    for (auto& [key, set] : sets_) set.best = set.initial;
  }

  const Interpreter& interpreter_;
  const std::vector<at::Tensor>& inputs_;
  c10::ArrayRef<double> scalars_;
  std::vector<double> seconds_;  // Time per step of the last run.
  std::map<std::string, TuningSet> sets_;
};

}  // namespace

// ATen's ops whose order matters can only throw, except random ones, which have an effect.
bool is_repeatable(const ir::Graph& graph) {
  bool has_effects = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const ir::Node& node) {
    if (!node.ordered) return false;
    return node.op.rfind("aten::", 0) != 0 || bridge::find_op(node.op).hasTag(at::Tag::nondeterministic_seeded);
  });
  return graph.write_backs.empty() && !has_effects;
}

void tune(const Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars, double seconds,
          const std::function<void(double)>& progress) {
  if (!interpreter.flat()) Tuner(interpreter, inputs, scalars).run(seconds, progress);
}

}  // namespace tenon::runtime
