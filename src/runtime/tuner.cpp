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

using Clock = std::chrono::steady_clock;
constexpr size_t kRounds = 8, kFinals = 9;

// Steps that compute the same by the same sizes.
struct Sort {
  std::vector<const KernelStep*> steps;
  std::vector<size_t> places;                // in the graph
  std::vector<Form> forms;                   // of a product; empty: of a kernel
  std::vector<std::vector<double>> seconds;  // per way, per run
  size_t usual = 0, best = 0;

  size_t ways() const { return seconds.size(); }
  void take(size_t way) const {
    for (const KernelStep* step : steps) {
      if (step->product) step->product->use(forms[way]);
      else step->code->store(way);
    }
  }
  void settle() const {
    take(best);
    for (const KernelStep* step : steps)
      if (step->product) step->product->drop_packs_of_others();
  }
};

double median(std::vector<double> all) {
  auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

std::string key_of(const ir::Graph& graph, const ir::Node& node, const KernelStep& step) {
  std::string key = step.product ? "product" : std::to_string(reinterpret_cast<uintptr_t>(step.codes[0].function));
  for (int64_t size : step.sizes) key += "," + std::to_string(size);
  if (!step.product) return key;
  for (size_t k = 1; k < node.args.size(); ++k) key += "," + ir::print(graph.values[std::get<ir::ValueId>(node.args[k])].type);
  return key;
}

std::vector<Form> forms_of(const ir::Graph& graph, const ir::Node& node, const Product& product) {
  const ir::TensorType& left = graph.values[std::get<ir::ValueId>(node.args[1])].type;
  return product.forms(bridge::from_dtype(left.dtype), left.sizes[1]);
}

class Tuner {
 public:
  Tuner(const Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars)
      : interpreter_(interpreter), inputs_(inputs), scalars_(scalars), seconds_(interpreter.graph().nodes.size()) {}

  void run(double budget, const std::function<void(double)>& progress) {
    find_sorts();
    if (sorts_.empty()) return;
    size_t most = 0;
    for (auto& [key, sort] : sorts_) most = std::max(most, sort.ways());
    auto start = Clock::now();
    auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    size_t rounds = (kRounds + 1) * most, round = 0;
    // The first of them all makes packs.
    for (; round < rounds && spent() < budget * 0.8; ++round) {
      run_round(round, /*is_first=*/round < most);
      progress(0.9 * static_cast<double>(round + 1) / static_cast<double>(rounds));
    }
    bool is_known = round >= 2 * most;
    for (auto& [key, sort] : sorts_) sort.best = is_known ? best_of(sort) : sort.usual;
    if (is_known) compare();
    for (auto& [key, sort] : sorts_) sort.settle();
    progress(1);
  }

 private:
  void find_sorts() {
    const ir::Graph& graph = interpreter_.graph();
    time_run();  // whose trials, if any, are not part of it
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const KernelStep* step = interpreter_.kernel(i);
      if (!step || step->call || step->convolution || (!step->product && step->codes.size() < 2)) continue;
      std::vector<Form> forms = step->product ? forms_of(graph, graph.nodes[i], *step->product) : std::vector<Form>();
      if (step->product && forms.size() < 2) continue;
      Sort& sort = sorts_[key_of(graph, graph.nodes[i], *step)];
      if (sort.steps.empty()) {
        sort.forms = forms;
        sort.seconds.resize(step->product ? forms.size() : step->codes.size());
        if (step->product) sort.usual = static_cast<size_t>(std::find(forms.begin(), forms.end(), step->product->form()) - forms.begin());
      }
      sort.steps.push_back(step);
      sort.places.push_back(i);
    }
  }

  double time_run() {
    return seconds_of([&] { interpreter_.run(inputs_, RunMode::kernels, scalars_, &seconds_); });
  }

  // What is beside a step is in another way each time too.
  void run_round(size_t round, bool is_first) {
    size_t shift = 0;
    std::vector<size_t> ways;
    for (auto& [key, sort] : sorts_) {
      ways.push_back((round + (is_first ? 0 : shift++ * (round / 4))) % sort.ways());
      sort.take(ways.back());
    }
    time_run();
    if (is_first) return;
    size_t s = 0;
    for (auto& [key, sort] : sorts_) {
      double sum = 0;
      for (size_t place : sort.places) sum += seconds_[place];
      sort.seconds[ways[s++]].push_back(sum);
    }
  }

  // Only what is clearly better than the usual.
  size_t best_of(const Sort& sort) const {
    constexpr double kClearly = 0.98;
    std::vector<double> medians;
    for (const auto& seconds : sort.seconds) medians.push_back(seconds.empty() ? 1e9 : median(seconds));
    auto best = static_cast<size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin());
    return medians[best] < kClearly * medians[sort.usual] ? best : sort.usual;
  }

  // All that was chosen beside all that is usual, in turn: unless it is faster as a whole, nothing changes.
  void compare() {
    std::vector<double> usual, chosen;
    for (size_t i = 0; i < kFinals; ++i) {
      for (auto& [key, sort] : sorts_) sort.take(sort.usual);
      usual.push_back(time_run());
      for (auto& [key, sort] : sorts_) sort.take(sort.best);
      chosen.push_back(time_run());
    }
    if (median(chosen) < median(usual)) return;
    for (auto& [key, sort] : sorts_) sort.best = sort.usual;
  }

  const Interpreter& interpreter_;
  const std::vector<at::Tensor>& inputs_;
  c10::ArrayRef<double> scalars_;
  std::vector<double> seconds_;  // of the last run, per step
  std::map<std::string, Sort> sorts_;
};

}  // namespace

// Of ATen's ops that keep their place only those with random numbers do more than throw.
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
