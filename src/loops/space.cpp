#include "loops/space.h"

#include <algorithm>

namespace tenon::loops {
ir::SizeList strides_of(const ir::Graph& graph, const ir::Group& group, ir::ValueId id) {
  const ir::TensorType& type = graph.values[id].type;
  ir::SizeList out(group.sizes.size(), 0);
  if (std::find(group.loops().dropped.begin(), group.loops().dropped.end(), id) != group.loops().dropped.end() &&
      std::find(group.outputs.begin(), group.outputs.end(), id) != group.outputs.end()) {
    size_t next = 0;
    for (size_t d = 0; d < out.size(); ++d)
      if (!group.loops().reduced[d]) out[d] = type.strides[next++];
    return out;
  }
  auto strided = std::find_if(group.loops().strided_operands.begin(), group.loops().strided_operands.end(),
                              [&](const ir::StridedOperand& p) { return p.id == id; });
  if (strided != group.loops().strided_operands.end()) return strided->strides;
  size_t missing = out.size() - type.sizes.size();  // Broadcasting aligns the last dimensions.
  for (size_t d = missing; d < out.size(); ++d)
    if (type.sizes[d - missing] != 1) out[d] = type.strides[d - missing];
  return out;
}

namespace {

// Collapses neighbouring dimensions that every buffer can iterate over with one stride.
std::vector<Space::LoopDim> collapsed(std::vector<Space::LoopDim> dims) {
  std::vector<Space::LoopDim> out;
  for (Space::LoopDim& dim : dims) {
    bool one = !out.empty() && dim.group_dim < 0 && out.back().group_dim < 0;
    for (size_t b = 0; b < dim.strides.size() && one; ++b) one = same(out.back().strides[b], dim.strides[b] * dim.extent);
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
  std::vector<ir::SizeList> strides;
  for (ir::ValueId id : buffers) strides.push_back(strides_of(graph, group, id));
  // The strides of the first output with all elements decide the loop order, otherwise those of the first such input.
  size_t leader = 0;
  for (size_t b = 0; b < buffers.size(); ++b)
    if (same(graph.values[buffers[b]].type.sizes, group.sizes)) {
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
    Space::LoopDim dim{group.sizes[d], alone ? static_cast<int64_t>(d) : -1, {}};
    for (const auto& along : strides) dim.strides.push_back(along[d]);
    bool is_reduced = !group.loops().reduced.empty() && group.loops().reduced[d];
    (is_reduced ? space.reduced : space.kept).push_back(std::move(dim));
    space.is_fastest_reduced = is_reduced;
  }
  space.kept = collapsed(std::move(space.kept));
  space.reduced = collapsed(std::move(space.reduced));
  Space::LoopDim one{1, -1, ir::SizeList(buffers.size(), 0)};
  if (space.kept.empty()) space.kept.push_back(one);
  if (space.reduced.empty() && !group.loops().reduced.empty()) space.reduced.push_back(one);
  return space;
}

}  // namespace tenon::loops
