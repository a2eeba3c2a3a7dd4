#include "passes/layout.h"

#include <algorithm>
#include <utility>

namespace tenon::passes {

int64_t numel(const ir::TensorType& type) {
  int64_t count = 1;
  for (int64_t size : type.sizes) count *= size;
  return count;
}

bool is_plain(const ir::TensorType& type) { return type.offset == 0 && type.strides == ir::contiguous_strides(type.sizes); }

bool is_dense(const ir::TensorType& type) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // Pairs of stride and size.
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (type.sizes[d] != 1) dims.emplace_back(type.strides[d], type.sizes[d]);
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (auto [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

// Goes from the last dimension to the first: x splits into chunks of dimensions without gaps between
// them, and dimensions of the result must fill each chunk exactly.
std::optional<std::vector<int64_t>> view_strides(const ir::TensorType& x, const std::vector<int64_t>& sizes) {
  if (numel(x) == 0) return std::nullopt;
  std::vector<int64_t> strides(sizes.size(), 1);
  if (x.sizes.empty()) return numel({x.dtype, sizes, {}, 0}) == 1 ? std::optional(strides) : std::nullopt;
  size_t next = sizes.size();  // Number of dimensions of the result that have no stride yet.
  int64_t base = x.strides.back(), chunk = 1, filled = 1;
  for (size_t d = x.sizes.size(); d-- > 0;) {
    chunk *= x.sizes[d];
    bool goes_on = d > 0 && (x.sizes[d - 1] == 1 || x.strides[d - 1] == chunk * base);
    if (goes_on) continue;
    while (next > 0 && (filled < chunk || sizes[next - 1] == 1)) {
      --next;
      strides[next] = filled * base;
      filled *= sizes[next];
    }
    if (filled != chunk) return std::nullopt;
    if (d > 0) {
      base = x.strides[d - 1];
      chunk = filled = 1;
    }
  }
  return next == 0 ? std::optional(strides) : std::nullopt;
}

std::optional<std::vector<int64_t>> expand_strides(const ir::TensorType& x, const std::vector<int64_t>& sizes) {
  if (sizes.size() < x.sizes.size()) return std::nullopt;
  std::vector<int64_t> strides(sizes.size(), 0);
  if (x.sizes.empty()) return strides;
  size_t added = sizes.size() - x.sizes.size();
  for (size_t d = sizes.size(); d-- > 0;) {
    int64_t size = d < added ? 1 : x.sizes[d - added];
    int64_t stride = d < added ? sizes[d + 1] * strides[d + 1] : x.strides[d - added];
    if (size != sizes[d] && size != 1) return std::nullopt;
    strides[d] = size == sizes[d] ? stride : 0;
  }
  return strides;
}

}  // namespace tenon::passes
