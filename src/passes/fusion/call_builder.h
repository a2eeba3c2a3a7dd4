// Helpers for patterns that become calls of ATen ops: producers of values, and a builder of the replacing graph.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/group.h"

namespace tenon::passes {

class Producers {
 public:
  explicit Producers(const ir::Graph& graph);

  static constexpr size_t kNoNode = SIZE_MAX;
  size_t node_index(ir::ValueId id) const { return node_[id]; }  // Index of the producing node, or kNowhere for an input.
  // Returns the producer of a value that has exactly one use; null if there is none, or if it is not a pure node with one result.
  const ir::Node* only(ir::ValueId id) const;

 private:
  const ir::Graph& graph_;
  std::vector<size_t> node_;
  std::vector<int> uses_;
};

// Builds a graph over a group's inputs. Meanwhile values keep their ids of the whole graph, and new values get higher ids; finish()
// renumbers them, so that no group copies all values of the graph.
class CallBuilder {
 public:
  CallBuilder(const ir::Graph& graph, const ir::Group& group);

  // Adds an op. The result is contiguous, or aliases the first operand if the op is a view.
  ir::ValueId add(std::string op, std::vector<ir::Argument> args, ir::SizeList sizes, ir::DType dtype);
  ir::ValueId add_result(ir::SizeList sizes, ir::DType dtype);  // Adds another result to the last op.
  void add_nothing();                                           // Adds an undefined result to the last op.
  const ir::TensorType& type(ir::ValueId id) const { return is_new(id) ? made_[id - first_new()].type : whole_.values[id].type; }
  std::shared_ptr<const ir::Graph> finish(std::vector<ir::ValueId> outputs);

 private:
  void set_view(ir::ValueId id);
  ir::ValueId first_new() const { return static_cast<ir::ValueId>(whole_.values.size()); }
  bool is_new(ir::ValueId id) const { return id >= first_new(); }

  const ir::Graph& whole_;
  std::vector<ir::ValueId> inputs_;
  std::vector<ir::Value> made_;
  ir::Graph graph_;
};

}  // namespace tenon::passes
