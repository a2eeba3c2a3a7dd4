#include "passes/layout.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/lowerable.h"

namespace tenon::passes {

ir::Size numel(const ir::TensorType& type) {
  ir::Size count = 1;
  for (const ir::Size& size : type.sizes) count *= size;
  return count;
}

bool is_plain(const ir::TensorType& type) { return same(type.offset, 0) && same(type.strides, ir::contiguous_strides(type.sizes)); }

bool is_dense(const ir::TensorType& type) {
  std::vector<std::pair<ir::Size, ir::Size>> dims;  // Pairs of stride and size.
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (type.sizes[d] != 1) dims.emplace_back(type.strides[d], type.sizes[d]);
  ir::Size expected = 1;
  while (!dims.empty()) {
    auto next = std::find_if(dims.begin(), dims.end(), [&](const auto& dim) { return same(dim.first, expected); });
    if (next == dims.end()) return false;
    expected *= next->second;
    dims.erase(next);
  }
  return true;
}

// Goes from the last dimension to the first: x splits into chunks of dimensions without gaps between
// them, and dimensions of the result must fill each chunk exactly.
std::optional<Shape> view_strides(const ir::TensorType& x, const Shape& sizes) {
  if (!ops::has_elements(x)) return std::nullopt;
  Shape strides(sizes.size(), 1);
  if (x.sizes.empty()) return numel({x.dtype, sizes, {}, 0}) == 1 ? std::optional(strides) : std::nullopt;
  size_t next = sizes.size();  // Number of dimensions of the result that have no stride yet.
  ir::Size base = x.strides.back(), chunk = 1, filled = 1;
  for (size_t d = x.sizes.size(); d-- > 0;) {
    chunk *= x.sizes[d];
    bool goes_on = d > 0 && (x.sizes[d - 1] == 1 || same(x.strides[d - 1], chunk * base));
    if (goes_on) continue;
    while (next > 0 && (!same(filled, chunk) || sizes[next - 1] == 1)) {
      --next;
      strides[next] = filled * base;
      filled *= sizes[next];
    }
    if (!same(filled, chunk)) return std::nullopt;
    if (d > 0) {
      base = x.strides[d - 1];
      chunk = filled = 1;
    }
  }
  return next == 0 ? std::optional(strides) : std::nullopt;
}

std::optional<Shape> expand_strides(const ir::TensorType& x, const Shape& sizes) {
  if (sizes.size() < x.sizes.size()) return std::nullopt;
  Shape strides(sizes.size(), 0);
  if (x.sizes.empty()) return strides;
  size_t added = sizes.size() - x.sizes.size();
  for (size_t d = sizes.size(); d-- > 0;) {
    ir::Size size = d < added ? 1 : x.sizes[d - added];
    ir::Size stride = d < added ? sizes[d + 1] * strides[d + 1] : x.strides[d - added];
    if (size != sizes[d] && size != 1) return std::nullopt;
    strides[d] = size == sizes[d] ? stride : 0;
  }
  return strides;
}

}  // namespace tenon::passes
