// Who lies on whose memory when a graph runs: what a pass must know before it lets one value stand
// for another.
//
// Values share a memory if one is a view of the other, or may have been made in place of it. In the
// graph language contents never change, so inside a graph any copy may stand for its original. Only
// what can be seen from outside forbids it: outputs must stay apart from each other and from the
// inputs. Memory that is overwritten somewhere is left alone too, because an op that writes an
// operand must not find the same memory in another operand.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

class Memory {
 public:
  explicit Memory(const ir::Graph& graph);

  bool same(ir::ValueId a, ir::ValueId b) const { return find(a) == find(b); }
  bool holds_input(ir::ValueId id) const { return input_[find(id)]; }
  bool holds_output(ir::ValueId id) const { return returned_[find(id)]; }
  bool is_written(ir::ValueId id) const { return written_[find(id)]; }

  // May `other` be read wherever `id` is? Both have the same type and contents.
  bool may_stand_for(ir::ValueId other, ir::ValueId id) const;  // views of one memory, or equal ops made them
  bool may_stand_for_copy(ir::ValueId source, ir::ValueId copy) const;

  // Whether a node overwrites one tensor that the graph made, not a part of it, and gives back just that.
  bool overwrites_own(const ir::Graph& graph, const ir::Node& node) const;

  // From now on it does.
  void merge(ir::ValueId other, ir::ValueId id);

 private:
  ir::ValueId find(ir::ValueId id) const {
    while (parent_[id] != id) id = parent_[id];
    return id;
  }

  std::vector<ir::ValueId> parent_;
  std::vector<bool> output_;                      // per value
  std::vector<bool> input_, returned_, written_;  // per memory
};

}  // namespace tenon::passes
