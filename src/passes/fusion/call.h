// Small tools of patterns that become calls: who made a value, and a graph that computes it otherwise.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/group.h"

namespace tenon::passes {

class Makers {
 public:
  explicit Makers(const ir::Graph& graph);

  static constexpr size_t kNowhere = SIZE_MAX;
  size_t place(ir::ValueId id) const { return place_[id]; }  // of the node, or kNowhere
  // The node that made a value which one node reads and nobody else; null if there is none or it does more.
  const ir::Node* only(ir::ValueId id) const;

 private:
  const ir::Graph& graph_;
  std::vector<size_t> place_;
  std::vector<int> uses_;
};

// A graph of a group's inputs. While it is made, values keep the numbers that they have in the whole graph, and new ones follow
// behind these; finish() numbers them anew, so that no group copies all values of the graph.
class Call {
 public:
  Call(const ir::Graph& graph, const ir::Group& group);

  // The result is in order, without gaps; or a view, which lies where that lies.
  ir::ValueId add(std::string op, std::vector<ir::Argument> args, std::vector<int64_t> sizes, ir::DType dtype);
  ir::ValueId add_result(std::vector<int64_t> sizes, ir::DType dtype);  // one more of the last op
  void add_nothing();                                                   // one that it leaves undefined
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
