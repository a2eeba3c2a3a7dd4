#include "planner/reuse.h"

#include <algorithm>
#include <limits>

#include "ir/graph/group.h"
#include "ir/graph/overlap.h"

namespace tenon::planner {
namespace {

using ir::kNoValue;
using ir::ValueId;

constexpr size_t kEnd = std::numeric_limits<size_t>::max();

class Planner {
 public:
  Planner(const ir::Graph& graph, const std::vector<bool>& frozen_inputs) : graph_(graph), frozen_(frozen_inputs) {
    size_t n = graph.values.size();
    buffer_.assign(n, -1);
    last_use_.assign(n, 0);
    uses_.resize(n);
  }

  ir::Reuse run() {
    find_uses();
    assign_inputs();
    out_.in_place.resize(graph_.nodes.size());
    out_.no_op.assign(graph_.nodes.size(), false);
    out_.drops.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) visit(i);
    for (const ir::WriteBack& write : graph_.write_backs)
      out_.written_already.push_back(buffer_[write.value] == buffer_[write.input] &&
                                     same(graph_.values[write.value].type, graph_.values[write.input].type));
    find_drops();
    out_.buffer = buffer_;
    return std::move(out_);
  }

  // Inputs whose buffer an output would share; these must not be written in place.
  std::vector<bool> inputs_aliased_by_outputs() const {
    std::vector<bool> found = frozen_;
    std::vector<std::vector<ValueId>> outputs_on(writable_.size());  // Outputs per buffer.
    for (ValueId id : graph_.outputs)
      if (id != kNoValue) outputs_on[buffer_[id]].push_back(id);
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      int buffer = buffer_[graph_.inputs[i].value];
      for (ValueId id : outputs_on[buffer])
        if (id != graph_.inputs[i].value && writable_[buffer]) found[i] = true;
    }
    return found;
  }

 private:
  void find_uses() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      ir::for_each_operand(graph_.nodes[i], [&](ValueId id) {
        uses_[id].push_back(i);
        last_use_[id] = i;
      });
    for (ValueId id : graph_.outputs)
      if (id != kNoValue) last_use_[id] = kEnd;
    for (const ir::WriteBack& write : graph_.write_backs) last_use_[write.value] = kEnd;
  }

  int new_buffer(bool writable) {
    writable_.push_back(writable);
    on_buffer_.emplace_back();
    return static_cast<int>(writable_.size() - 1);
  }

  void assign(ValueId id, int buffer) {
    buffer_[id] = buffer;
    on_buffer_[buffer].push_back(id);
  }

  void assign_inputs() {
    std::vector<bool> is_written(graph_.values.size(), false);
    for (const ir::WriteBack& write : graph_.write_backs) is_written[write.input] = true;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      ValueId id = graph_.inputs[i].value;
      assign(id, new_buffer(is_written[id] && !frozen_[i]));
    }
  }

  const ir::TensorType& type(ValueId id) const { return graph_.values[id].type; }

  // Values of symbolic sizes are assumed to overlap.
  static bool may_overlap(const ir::TensorType& a, const ir::TensorType& b) {
    auto is_fixed = [](const ir::TensorType& t) { return t.sizes.are_numbers() && t.strides.are_numbers() && t.offset.is_number(); };
    return !is_fixed(a) || !is_fixed(b) || ir::may_overlap(a.fixed(), b.fixed());
  }

  // Whether the only reader of `root` after node `now` is the scatter of `source` into it.
  bool only_scattered(ValueId root, ValueId source, size_t now) const {
    if (last_use_[root] == kEnd) return false;
    for (size_t use : uses_[root]) {
      if (use <= now) continue;
      const ir::Node& node = graph_.nodes[use];
      if (node.op != "aten::as_strided_scatter") return false;
      if (std::get<ValueId>(node.args[0]) != root || std::get<ValueId>(node.args[1]) != source) return false;
    }
    return true;
  }

  bool may_write(const ir::Node::Write& write, size_t now) const {
    int buffer = buffer_[write.before];
    if (!writable_[buffer]) return false;
    // A kernel reads each element of the operand that it overwrites before it writes it. It may not have another operand in the same
    // buffer.
    bool is_alone = true;
    if (ir::is_fused(graph_.nodes[now]))
      ir::for_each_operand(graph_.nodes[now], [&](ValueId id) { is_alone &= id == write.before || buffer_[id] != buffer; });
    if (!is_alone) return false;
    for (ValueId other : on_buffer_[buffer]) {
      if (last_use_[other] <= now) continue;
      if (!may_overlap(type(other), type(write.before))) continue;
      if (other == write.before || !only_scattered(other, write.after, now)) return false;
    }
    return true;
  }

  bool is_no_op_scatter(const ir::Node& node, size_t now) const {
    if (node.op != "aten::as_strided_scatter") return false;
    ValueId root = std::get<ValueId>(node.args[0]), source = std::get<ValueId>(node.args[1]);
    return buffer_[root] == buffer_[source] && writable_[buffer_[root]] && last_use_[root] <= now && scatters_in_place(node, type(source));
  }

  // Whether the scatter writes its source to the memory where the source already is.
  static bool scatters_in_place(const ir::Node& node, const ir::TensorType& source) {
    auto list = [&](size_t i) { return std::get<ir::SizeList>(std::get<ir::Attribute>(node.args[i])); };
    const auto* offset = std::get_if<ir::Size>(&std::get<ir::Attribute>(node.args[4]));
    return offset && same(list(2), source.sizes) && same(list(3), source.strides) && same(*offset, source.offset);
  }

  void visit(size_t index) {
    const ir::Node& node = graph_.nodes[index];
    for (const ir::Node::Write& write : node.writes) {
      bool ok = may_write(write, index);
      out_.in_place[index].push_back(ok);
      assign(write.after, ok ? buffer_[write.before] : new_buffer(true));
    }
    if (is_no_op_scatter(node, index)) {
      out_.no_op[index] = true;
      assign(node.results[0].ids[0], buffer_[std::get<ValueId>(node.args[0])]);
      return;
    }
    ir::for_each_definition(node, [&](ValueId id) {
      if (buffer_[id] >= 0) return;
      ValueId alias = graph_.values[id].alias_of;
      assign(id, alias == kNoValue ? new_buffer(true) : buffer_[alias]);
    });
  }

  void find_drops() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      std::vector<ValueId>& drops = out_.drops[i];
      auto consider = [&](ValueId id, bool unused) {
        bool dies = last_use_[id] == i || (unused && uses_[id].empty() && last_use_[id] != kEnd);
        if (dies && std::find(drops.begin(), drops.end(), id) == drops.end()) drops.push_back(id);
      };
      ir::for_each_operand(graph_.nodes[i], [&](ValueId id) { consider(id, false); });
      ir::for_each_definition(graph_.nodes[i], [&](ValueId id) {
        if (uses_[id].empty()) consider(id, true);
      });
    }
  }

  const ir::Graph& graph_;
  std::vector<bool> frozen_;
  std::vector<int> buffer_;
  std::vector<bool> writable_;
  std::vector<std::vector<ValueId>> on_buffer_;
  std::vector<size_t> last_use_;
  std::vector<std::vector<size_t>> uses_;
  ir::Reuse out_;
};

}  // namespace

ir::Reuse plan_reuse(const ir::Graph& graph) {
  std::vector<bool> frozen(graph.inputs.size(), false);
  for (;;) {
    Planner planner(graph, frozen);
    ir::Reuse reuse = planner.run();
    std::vector<bool> needed = planner.inputs_aliased_by_outputs();
    if (needed == frozen) return reuse;
    frozen = needed;
  }
}

ir::Reuse no_reuse(const ir::Graph& graph) {
  ir::Reuse reuse = plan_reuse(graph);
  for (auto& writes : reuse.in_place) writes.assign(writes.size(), false);
  reuse.no_op.assign(reuse.no_op.size(), false);
  reuse.written_already.assign(reuse.written_already.size(), false);
  reuse.buffer.clear();
  return reuse;
}

}  // namespace tenon::planner
