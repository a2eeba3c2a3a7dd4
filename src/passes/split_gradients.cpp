#include "passes/split_gradients.h"

#include <algorithm>

namespace tenon::passes {

size_t split_gradients(ir::Graph& graph) {
  constexpr size_t kMask = 7;
  size_t changes = 0;
  std::vector<ir::Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (i == graph.backward_start) graph.backward_start = nodes.size();
    ir::Node& node = graph.nodes[i];
    auto is_wanted = [](const ir::Result& result) { return result.ids[0] != ir::kNoValue; };
    bool several = node.op == "aten::native_layer_norm_backward" && std::count_if(node.results.begin(), node.results.end(), is_wanted) > 1;
    if (!several) {
      nodes.push_back(std::move(node));
      continue;
    }
    ++changes;
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (!is_wanted(node.results[r])) continue;
      ir::Node one = node;
      std::vector<bool> mask(node.results.size(), false);
      mask[r] = true;
      one.args[kMask] = ir::Attribute(mask);
      for (size_t other = 0; other < node.results.size(); ++other)
        if (other != r) one.results[other].ids[0] = ir::kNoValue;
      nodes.push_back(std::move(one));
    }
  }
  if (graph.backward_start == graph.nodes.size()) graph.backward_start = nodes.size();
  graph.nodes = std::move(nodes);
  return changes;
}

}  // namespace tenon::passes
