#include "autodiff/partition.h"

#include <algorithm>

#include "base/error.h"

namespace tenon::autodiff {
namespace {

using ir::ValueId;

class Partitioner {
 public:
  Partitioner(const ir::Graph& joint, size_t forward_outputs, const RecomputeSettings& settings)
      : joint_(joint), forward_outputs_(forward_outputs), values_(choose_saved_values(joint, forward_outputs, settings)) {
    in_backward_.assign(joint.values.size(), false);
    for (size_t i = joint.backward_start; i < joint.nodes.size(); ++i)
      ir::for_each_definition(joint.nodes[i], [&](ValueId id) { in_backward_[id] = true; });
  }

  Partition run() {
    make_forward();
    make_backward();
    return std::move(out_);
  }

 private:
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
      if (values_.saved[id]) g.outputs.push_back(static_cast<ValueId>(id));
  }

  void make_backward() {
    ir::Graph& g = out_.backward;
    g.name = joint_.name + "_backward";
    g.values = joint_.values;
    int32_t saved = 0;
    for (size_t id = 0; id < joint_.values.size(); ++id) {
      if (!values_.saved[id]) continue;
      g.inputs.push_back({static_cast<ValueId>(id), ir::InputRole::saved, "saved" + std::to_string(saved)});
      g.values[id].alias_of = ir::kNoValue;
      out_.backward_inputs.push_back({true, saved++});
    }
    for (size_t i = 0; i < joint_.inputs.size(); ++i) {
      bool tangent = joint_.inputs[i].role == ir::InputRole::tangent;
      if (!values_.read[joint_.inputs[i].value] && !tangent) continue;
      g.inputs.push_back(joint_.inputs[i]);
      out_.backward_inputs.push_back({false, static_cast<int32_t>(i)});
    }
    for (size_t i = 0; i < joint_.nodes.size(); ++i)
      if (i >= joint_.backward_start || values_.recomputed[i]) g.nodes.push_back(joint_.nodes[i]);
    for (const ir::WriteBack& write : joint_.write_backs)
      if (in_backward_[write.value]) g.write_backs.push_back(write);
    g.outputs.assign(joint_.outputs.begin() + static_cast<ptrdiff_t>(forward_outputs_), joint_.outputs.end());
  }

  const ir::Graph& joint_;
  size_t forward_outputs_;
  SavedValues values_;
  std::vector<bool> in_backward_;  // One per value.
  Partition out_;
};

}  // namespace

Partition partition(const ir::Graph& joint, size_t forward_outputs, const RecomputeSettings& settings) {
  if (!joint.is_joint()) throw InternalError("partition was called on a graph without a backward");
  return Partitioner(joint, forward_outputs, settings).run();
}

}  // namespace tenon::autodiff
