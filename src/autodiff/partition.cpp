#include "autodiff/partition.h"

#include <algorithm>

#include "base/error.h"

namespace tenon::autodiff {
namespace {

using ir::kNoValue;
using ir::ValueId;

class Partitioner {
 public:
  Partitioner(const ir::Graph& joint, size_t forward_outputs) : joint_(joint), forward_outputs_(forward_outputs) {}

  Partition run() {
    find_producers();
    find_needed();
    make_forward();
    make_backward();
    return std::move(out_);
  }

 private:
  void find_producers() {
    producer_.assign(joint_.values.size(), -1);
    input_.assign(joint_.values.size(), -1);
    for (size_t i = 0; i < joint_.inputs.size(); ++i) input_[joint_.inputs[i].value] = static_cast<int32_t>(i);
    for (size_t i = 0; i < joint_.nodes.size(); ++i)
      ir::for_each_definition(joint_.nodes[i], [&](ValueId id) { producer_[id] = static_cast<int32_t>(i); });
  }

  bool in_backward(ValueId id) const { return producer_[id] >= 0 && static_cast<size_t>(producer_[id]) >= joint_.backward_start; }

  // Views cost nothing, so the backward recomputes them instead of saving them.
  bool is_view(ValueId id) const {
    return producer_[id] >= 0 && joint_.values[id].alias_of != kNoValue && joint_.nodes[producer_[id]].writes.empty();
  }

  void mark_needed(ValueId id) {
    if (id == kNoValue || in_backward(id) || needed_[id]) return;
    needed_[id] = true;
    if (!is_view(id)) return;
    recomputed_[producer_[id]] = true;
    ir::for_each_operand(joint_.nodes[producer_[id]], [&](ValueId operand) { mark_needed(operand); });
  }

  void find_needed() {
    needed_.assign(joint_.values.size(), false);
    recomputed_.assign(joint_.nodes.size(), false);
    for (size_t i = joint_.backward_start; i < joint_.nodes.size(); ++i)
      ir::for_each_operand(joint_.nodes[i], [&](ValueId id) { mark_needed(id); });
    for (size_t i = forward_outputs_; i < joint_.outputs.size(); ++i) mark_needed(joint_.outputs[i]);
    for (const ir::WriteBack& write : joint_.write_backs)
      if (in_backward(write.value)) mark_needed(write.input);
  }

  bool is_saved(ValueId id) const { return needed_[id] && input_[id] < 0 && !is_view(id); }

  void make_forward() {
    ir::Graph& g = out_.forward;
    g.name = joint_.name + "_forward";
    g.values = joint_.values;
    std::vector<bool> read(joint_.values.size(), false);
    for (size_t i = 0; i < joint_.backward_start; ++i) ir::for_each_operand(joint_.nodes[i], [&](ValueId id) { read[id] = true; });
    for (const ir::WriteBack& write : joint_.forward_write_backs) read[write.input] = true;
    for (size_t i = 0; i < joint_.inputs.size(); ++i) {
      if (!read[joint_.inputs[i].value]) continue;
      g.inputs.push_back(joint_.inputs[i]);
      out_.forward_inputs.push_back(static_cast<int32_t>(i));
    }
    g.nodes.assign(joint_.nodes.begin(), joint_.nodes.begin() + static_cast<ptrdiff_t>(joint_.backward_start));
    g.write_backs = joint_.forward_write_backs;
    g.outputs.assign(joint_.outputs.begin(), joint_.outputs.begin() + static_cast<ptrdiff_t>(forward_outputs_));
    for (size_t id = 0; id < joint_.values.size(); ++id)
      if (is_saved(static_cast<ValueId>(id))) g.outputs.push_back(static_cast<ValueId>(id));
  }

  void make_backward() {
    ir::Graph& g = out_.backward;
    g.name = joint_.name + "_backward";
    g.values = joint_.values;
    int32_t saved = 0;
    for (size_t id = 0; id < joint_.values.size(); ++id) {
      if (!is_saved(static_cast<ValueId>(id))) continue;
      g.inputs.push_back({static_cast<ValueId>(id), ir::InputRole::saved, "saved" + std::to_string(saved)});
      g.values[id].alias_of = kNoValue;
      out_.backward_inputs.push_back({true, saved++});
    }
    for (size_t i = 0; i < joint_.inputs.size(); ++i) {
      bool tangent = joint_.inputs[i].role == ir::InputRole::tangent;
      if (!needed_[joint_.inputs[i].value] && !tangent) continue;
      g.inputs.push_back(joint_.inputs[i]);
      out_.backward_inputs.push_back({false, static_cast<int32_t>(i)});
    }
    for (size_t i = 0; i < joint_.nodes.size(); ++i)
      if (i >= joint_.backward_start || recomputed_[i]) g.nodes.push_back(joint_.nodes[i]);
    for (const ir::WriteBack& write : joint_.write_backs)
      if (in_backward(write.value)) g.write_backs.push_back(write);
    g.outputs.assign(joint_.outputs.begin() + static_cast<ptrdiff_t>(forward_outputs_), joint_.outputs.end());
  }

  const ir::Graph& joint_;
  size_t forward_outputs_;
  std::vector<int32_t> producer_, input_;
  std::vector<bool> needed_, recomputed_;
  Partition out_;
};

}  // namespace

Partition partition(const ir::Graph& joint, size_t forward_outputs) {
  if (!joint.is_joint()) throw InternalError("partition was called on a graph without a backward");
  return Partitioner(joint, forward_outputs).run();
}

}  // namespace tenon::autodiff
