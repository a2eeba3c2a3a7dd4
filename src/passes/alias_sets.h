// Alias analysis: the sets of values that may share memory when a graph runs. A pass must know them
// before it replaces one value by another.
//
// Values are in one set if one is a view of the other, or may have been written in place of it. In the
// graph language contents never change, so inside a graph any copy may replace its original. Only
// observable aliasing forbids it: outputs must not share memory with each other or with inputs. Memory
// that is overwritten stays as it is too, because an op that writes an operand must not find the same
// memory in another operand.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

class AliasSets {
 public:
  explicit AliasSets(const ir::Graph& graph);

  bool same(ir::ValueId a, ir::ValueId b) const { return find(a) == find(b); }
  bool holds_input(ir::ValueId id) const { return input_[find(id)]; }
  bool holds_output(ir::ValueId id) const { return returned_[find(id)]; }
  bool is_written(ir::ValueId id) const { return written_[find(id)]; }

  // Return whether all uses of `id` may read `other` instead. Both have the same type and contents.
  bool may_replace(ir::ValueId other, ir::ValueId id) const;  // Applies to views of one buffer and to results of equal ops.
  bool may_replace_copy(ir::ValueId source, ir::ValueId copy) const;

  // Returns whether a node overwrites exactly one whole tensor that the graph made, and returns only that tensor.
  bool overwrites_own(const ir::Graph& graph, const ir::Node& node) const;

  // Records that `other` replaces `id`.
  void merge(ir::ValueId other, ir::ValueId id);

 private:
  ir::ValueId find(ir::ValueId id) const {
    while (parent_[id] != id) id = parent_[id];
    return id;
  }

  std::vector<ir::ValueId> parent_;
  std::vector<bool> output_;                      // One entry per value.
  std::vector<bool> input_, returned_, written_;  // One entry per set, stored at its representative.
};

}  // namespace tenon::passes
