#include "autodiff/saved_values.h"

#include <algorithm>
#include <cmath>

#include "autodiff/min_cut.h"

namespace tenon::autodiff {
namespace {

using ir::kNoValue;
using ir::ValueId;

// One core moves about 10 GB/s. A saved value is written and read once.
constexpr double kNanosecondsPerByte = 2.0 / 10;
// Values up to this size stay in the second-level cache, where saving costs little beside a kernel's fixed cost.
constexpr int64_t kCachedBytes = 1 << 18;
constexpr double kNanosecondsPerCachedByte = kNanosecondsPerByte / 10;
// Prices of a byte, in nanoseconds, among which the one that meets the memory budget is searched.
constexpr double kMinPrice = 1e-3, kMaxPrice = 1e7;
constexpr int kPriceSteps = 24;

int64_t bytes_of_value(const ir::Graph& graph, ValueId id) {
  const ir::TensorType& type = graph.values[id].type;
  return ir::extent_of(type.at(graph.symbols)) * ir::dtype_size(type.dtype);
}

class Chooser {
 public:
  Chooser(const ir::Graph& joint, size_t forward_outputs, const RecomputeSettings& settings)
      : joint_(joint), forward_outputs_(forward_outputs), settings_(settings) {
    producer_.assign(joint.values.size(), -1);
    for (size_t i = 0; i < joint.nodes.size(); ++i)
      ir::for_each_definition(joint.nodes[i], [&](ValueId id) { producer_[id] = static_cast<int32_t>(i); });
    for (size_t i = 0; i < joint.nodes.size() && i < joint.backward_start; ++i) times_.push_back(time_of(joint.nodes[i]));
  }

  SavedValues run() {
    std::vector<bool> none(times_.size(), false);
    only_views_ = follow(none);
    if (!settings_.time_of) return only_views_;
    SavedValues fastest = cut(/*price=*/0);
    double limit = settings_.memory_budget * bytes_of(joint_, fastest);
    if (bytes_of(joint_, fastest) <= limit) return fastest;
    // The lowest price that makes the saved values fit. If none does, the highest one gives the least memory that there is.
    double low = std::log(kMinPrice), high = std::log(kMaxPrice);
    SavedValues best = cut(kMaxPrice);
    for (int i = 0; i < kPriceSteps && bytes_of(joint_, best) <= limit; ++i) {
      double price = (low + high) / 2;
      SavedValues found = cut(std::exp(price));
      bool fits = bytes_of(joint_, found) <= limit;
      (fits ? high : low) = price;
      if (fits) best = std::move(found);
    }
    return best;
  }

 private:
  bool is_forward(ValueId id) const { return producer_[id] < 0 || static_cast<size_t>(producer_[id]) < joint_.backward_start; }
  bool is_input(ValueId id) const { return producer_[id] < 0; }
  // Views cost nothing, so they are never saved.
  bool is_view(ValueId id) const {
    return producer_[id] >= 0 && joint_.values[id].alias_of != kNoValue && joint_.nodes[producer_[id]].writes.empty();
  }

  // The time to compute a node again.
  double time_of(const ir::Node& node) const {
    bool all_views = true;
    ir::for_each_definition(node, [&](ValueId id) { all_views &= joint_.values[id].alias_of != kNoValue && node.writes.empty(); });
    if (all_views && !node.results.empty()) return 0;
    bool reads_written = false;
    ir::for_each_operand(node, [&](ValueId id) {
      for (const ir::WriteBack& write : joint_.forward_write_backs) reads_written |= write.input == id;
    });
    double time = node.ordered || reads_written || !settings_.time_of ? HUGE_VAL : settings_.time_of(joint_, node);
    return std::min(time, MinCut::kInfinite);
  }

  // Calls f for every forward value that the backward reads.
  template <class F>
  void for_each_read(F&& f) const {
    auto read = [&](ValueId id) {
      if (id != kNoValue && is_forward(id)) f(id);
    };
    for (size_t i = joint_.backward_start; i < joint_.nodes.size(); ++i) ir::for_each_operand(joint_.nodes[i], read);
    for (size_t i = forward_outputs_; i < joint_.outputs.size(); ++i) read(joint_.outputs[i]);
    for (const ir::WriteBack& write : joint_.write_backs)
      if (!is_forward(write.value)) read(write.input);
  }

  // Follows the backward's needs, where these nodes are computed again.
  SavedValues follow(const std::vector<bool>& again) const {
    SavedValues out{std::vector<bool>(joint_.values.size(), false), std::vector<bool>(joint_.nodes.size(), false),
                    std::vector<bool>(joint_.values.size(), false)};
    std::vector<ValueId> open;
    auto need = [&](ValueId id) {
      if (id == kNoValue || !is_forward(id) || out.read[id]) return;
      out.read[id] = true;
      open.push_back(id);
    };
    for_each_read(need);
    while (!open.empty()) {
      ValueId id = open.back();
      open.pop_back();
      if (is_input(id)) continue;
      if (!is_view(id) && !again[producer_[id]]) {
        out.saved[id] = true;
      } else if (!out.recomputed[producer_[id]]) {
        out.recomputed[producer_[id]] = true;
        ir::for_each_operand(joint_.nodes[producer_[id]], need);
      }
    }
    return out;
  }

  double time_to_save(ValueId id) const {
    int64_t bytes = bytes_of_value(joint_, id);
    return static_cast<double>(bytes) * (bytes > kCachedBytes ? kNanosecondsPerByte : kNanosecondsPerCachedByte);
  }

  // A vertex is on the sink's side if the backward computes the node, or has the value.
  SavedValues cut(double price) const {
    MinCut graph;
    int32_t source = graph.add_vertex(), sink = graph.add_vertex();
    std::vector<int32_t> values, nodes;
    for (size_t id = 0; id < joint_.values.size(); ++id) values.push_back(graph.add_vertex());
    for (size_t i = 0; i < times_.size(); ++i) {
      nodes.push_back(graph.add_vertex());
      if (times_[i] > 0) graph.add_edge(source, nodes[i], times_[i]);
      ir::for_each_operand(joint_.nodes[i], [&](ValueId id) { graph.add_edge(values[id], nodes[i], MinCut::kInfinite); });
      ir::for_each_definition(joint_.nodes[i], [&](ValueId id) {
        double save = time_to_save(id) + price * static_cast<double>(bytes_of_value(joint_, id));
        graph.add_edge(nodes[i], values[id], is_view(id) ? MinCut::kInfinite : save);
      });
    }
    for (const ir::Input& input : joint_.inputs)
      if (!only_views_.read[input.value]) graph.add_edge(source, values[input.value], MinCut::kInfinite);
    for_each_read([&](ValueId id) { graph.add_edge(values[id], sink, MinCut::kInfinite); });
    std::vector<bool> computed = graph.sink_side(source, sink), again;
    for (int32_t vertex : nodes) again.push_back(computed[vertex]);
    return follow(again);
  }

  const ir::Graph& joint_;
  size_t forward_outputs_;
  const RecomputeSettings& settings_;
  std::vector<int32_t> producer_;
  std::vector<double> times_;  // One per forward node.
  SavedValues only_views_;     // The values that the backward reads if only views are computed again.
};

}  // namespace

double bytes_of(const ir::Graph& joint, const SavedValues& values) {
  int64_t bytes = 0;
  for (size_t id = 0; id < values.saved.size(); ++id)
    if (values.saved[id]) bytes += bytes_of_value(joint, static_cast<ValueId>(id));
  return static_cast<double>(bytes);
}

SavedValues choose_saved_values(const ir::Graph& joint, size_t forward_outputs, const RecomputeSettings& settings) {
  return Chooser(joint, forward_outputs, settings).run();
}

}  // namespace tenon::autodiff
