#include "loops/space.h"

#include <algorithm>

namespace tenon::loops {

Space space_of(const ir::Graph& graph, const std::vector<int64_t>& sizes, const std::vector<ir::ValueId>& buffers, size_t leader) {
  std::vector<Space::Dim> dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    Space::Dim dim{sizes[d], {}};
    for (ir::ValueId id : buffers) {
      const ir::TensorType& type = graph.values[id].type;
      size_t missing = sizes.size() - type.sizes.size();  // sizes are aligned at the end
      bool broadcast = d < missing || type.sizes[d - missing] == 1;
      dim.strides.push_back(broadcast ? 0 : type.strides[d - missing]);
    }
    dims.push_back(std::move(dim));
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [&](const Space::Dim& a, const Space::Dim& b) { return a.strides[leader] > b.strides[leader]; });
  Space space;
  for (Space::Dim& dim : dims) {
    Space::Dim* outer = space.dims.empty() ? nullptr : &space.dims.back();
    bool one = outer != nullptr;
    for (size_t b = 0; b < buffers.size() && one; ++b) one = outer->strides[b] == dim.strides[b] * dim.extent;
    if (one) {
      outer->extent *= dim.extent;
      outer->strides = std::move(dim.strides);
    } else {
      space.dims.push_back(std::move(dim));
    }
  }
  if (space.dims.empty()) space.dims.push_back({1, std::vector<int64_t>(buffers.size(), 0)});
  return space;
}

}  // namespace tenon::loops
