#include "passes/alias_sets.h"

#include <numeric>

#include "ir/graph/node.h"

namespace tenon::passes {

using ir::kNoValue;
using ir::ValueId;

AliasSets::AliasSets(const ir::Graph& graph) : parent_(graph.values.size()), output_(graph.values.size(), false) {
  std::iota(parent_.begin(), parent_.end(), 0);
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].alias_of != kNoValue) parent_[find(static_cast<ValueId>(id))] = find(graph.values[id].alias_of);
  for (const ir::Node& node : graph.nodes)
    for (const ir::Node::Write& write : node.writes) parent_[find(write.after)] = find(write.before);
  input_ = returned_ = written_ = output_;
  for (const ir::Input& input : graph.inputs) input_[find(input.value)] = true;
  for (const ir::Node& node : graph.nodes)
    for (const ir::Node::Write& write : node.writes) written_[find(write.before)] = true;
  for (ValueId id : graph.outputs)
    if (id != kNoValue) output_[id] = returned_[find(id)] = true;
}

bool AliasSets::may_replace(ValueId other, ValueId id) const {
  if (output_[other] && output_[id]) return false;
  if (same(other, id)) return !(output_[id] && holds_input(id));
  if (holds_input(other) || holds_input(id) || is_written(other) || is_written(id)) return false;
  return !(holds_output(other) && holds_output(id));
}

// An input does not replace its copy, because kernels may round differently on memory with another
// alignment. A returned copy stays, because its source may be a small part of a large buffer.
bool AliasSets::may_replace_copy(ValueId source, ValueId copy) const {
  return !holds_input(source) && !holds_output(copy) && may_replace(source, copy);
}

bool AliasSets::overwrites_own(const ir::Graph& graph, const ir::Node& node) const {
  if (node.writes.size() != 1 || node.writes[0].after != only_result(node)) return false;
  ValueId before = node.writes[0].before;
  return graph.values[before].alias_of == kNoValue && !holds_input(before);
}

void AliasSets::merge(ValueId other, ValueId id) {
  ValueId to = find(other), from = find(id);
  output_[other] = output_[other] || output_[id];
  if (to == from) return;
  parent_[from] = to;
  returned_[to] = returned_[to] || returned_[from];
}

}  // namespace tenon::passes
