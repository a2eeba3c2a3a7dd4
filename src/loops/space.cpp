#include "loops/space.h"

#include <algorithm>

namespace tenon::loops {
std::vector<int64_t> strides_of(const ir::Graph& graph, const ir::Group& group, ir::ValueId id) {
  const ir::TensorType& type = graph.values[id].type;
  std::vector<int64_t> out(group.sizes.size(), 0);
  if (std::find(group.dropped.begin(), group.dropped.end(), id) != group.dropped.end() &&
      std::find(group.outputs.begin(), group.outputs.end(), id) != group.outputs.end()) {
    size_t next = 0;
    for (size_t d = 0; d < out.size(); ++d)
      if (!group.reduced[d]) out[d] = type.strides[next++];
    return out;
  }
  auto placed = std::find_if(group.placed.begin(), group.placed.end(), [&](const ir::Placed& p) { return p.id == id; });
  if (placed != group.placed.end()) return placed->strides;
  size_t missing = out.size() - type.sizes.size();  // sizes are aligned at the end
  for (size_t d = missing; d < out.size(); ++d)
    if (type.sizes[d - missing] != 1) out[d] = type.strides[d - missing];
  return out;
}

namespace {

// Neighbours that can be counted through as one become one.
std::vector<Space::Dim> joined(std::vector<Space::Dim> dims) {
  std::vector<Space::Dim> out;
  for (Space::Dim& dim : dims) {
    bool one = !out.empty() && dim.of < 0 && out.back().of < 0;
    for (size_t b = 0; b < dim.strides.size() && one; ++b) one = out.back().strides[b] == dim.strides[b] * dim.extent;
    if (!one) {
      out.push_back(std::move(dim));
      continue;
    }
    out.back().extent *= dim.extent;
    out.back().strides = std::move(dim.strides);
  }
  return out;
}

}  // namespace

Space space_of(const ir::Graph& graph, const ir::Group& group, const std::vector<ir::ValueId>& buffers, const std::vector<size_t>& apart) {
  std::vector<std::vector<int64_t>> strides;
  for (ir::ValueId id : buffers) strides.push_back(strides_of(graph, group, id));
  // The layout of the first output that has all elements decides the order, or of the first input.
  size_t leader = 0;
  for (size_t b = 0; b < buffers.size(); ++b)
    if (graph.values[buffers[b]].type.sizes == group.sizes) {
      leader = b;
      if (b >= group.inputs.size()) break;
    }
  std::vector<size_t> order;
  for (size_t d = 0; d < group.sizes.size(); ++d)
    if (group.sizes[d] != 1) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[leader][a] > strides[leader][b]; });
  Space space;
  for (size_t d : order) {
    bool alone = std::find(apart.begin(), apart.end(), d) != apart.end();
    Space::Dim dim{group.sizes[d], alone ? static_cast<int64_t>(d) : -1, {}};
    for (const auto& along : strides) dim.strides.push_back(along[d]);
    bool is_reduced = !group.reduced.empty() && group.reduced[d];
    (is_reduced ? space.reduced : space.kept).push_back(std::move(dim));
    space.rows = is_reduced;
  }
  space.kept = joined(std::move(space.kept));
  space.reduced = joined(std::move(space.reduced));
  Space::Dim one{1, -1, std::vector<int64_t>(buffers.size(), 0)};
  if (space.kept.empty()) space.kept.push_back(one);
  if (space.reduced.empty() && !group.reduced.empty()) space.reduced.push_back(one);
  return space;
}

}  // namespace tenon::loops
