#include "ir/graph/overlap.h"

#include <algorithm>
#include <cstdlib>

namespace tenon::ir {
namespace {

struct StridedDim {
  int64_t stride, size_a, size_b;
};

struct Hull {
  int64_t first, last;
  bool empty = false;
};

Hull hull(const FixedType& type) {
  Hull h{type.offset, type.offset};
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    h.empty |= type.sizes[i] == 0;
    h.last += (type.sizes[i] - 1) * type.strides[i];
  }
  return h;
}

// Returns whether `distance` = sum of (i_k - j_k) * stride_k for some index i of a and j of b. Dims
// are sorted by descending stride; `reach` is the largest distance that the dims after k can cover.
bool reachable(int64_t distance, const std::vector<StridedDim>& dims, size_t k) {
  if (k == dims.size()) return distance == 0;
  int64_t reach = 0;
  for (size_t i = k + 1; i < dims.size(); ++i) reach += (std::max(dims[i].size_a, dims[i].size_b) - 1) * dims[i].stride;
  const StridedDim& dim = dims[k];
  for (int64_t steps = -(dim.size_b - 1); steps <= dim.size_a - 1; ++steps) {
    int64_t rest = distance - steps * dim.stride;
    if (std::llabs(rest) <= reach && reachable(rest, dims, k + 1)) return true;
  }
  return false;
}

void add_elements(const FixedType& type, size_t dim, int64_t at, std::vector<int64_t>& out) {
  if (dim == type.sizes.size()) {
    out.push_back(at);
    return;
  }
  for (int64_t i = 0; i < type.sizes[dim]; ++i) add_elements(type, dim + 1, at + i * type.strides[dim], out);
}

// Elements of a tensor that are listed to compare it with another. Bounds the compile time; not measured.
constexpr int64_t kMaxListedElements = 4096;
// Steps of the search for a common element. Bounds the compile time; not measured.
constexpr int64_t kMaxSearchSteps = 1 << 20;

// Lists the elements of small tensors, and assumes an overlap for large ones.
bool share_by_counting(const FixedType& a, const FixedType& b) {
  std::vector<int64_t> x, y;
  for (const FixedType* type : {&a, &b}) {
    int64_t count = 1;
    for (int64_t size : type->sizes) count *= size;
    if (count > kMaxListedElements) return true;
  }
  add_elements(a, 0, a.offset, x);
  add_elements(b, 0, b.offset, y);
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  for (size_t i = 0, k = 0; i < x.size() && k < y.size();) {
    if (x[i] == y[k]) return true;
    if (x[i] < y[k]) ++i;
    else ++k;
  }
  return false;
}

}  // namespace

bool may_overlap(const FixedType& a, const FixedType& b) {
  Hull x = hull(a), y = hull(b);
  if (x.empty || y.empty) return false;
  int64_t size_a = dtype_size(a.dtype), size_b = dtype_size(b.dtype);
  if ((x.last + 1) * size_a <= y.first * size_b || (y.last + 1) * size_b <= x.first * size_a) return false;
  if (a.dtype != b.dtype) return true;
  if (a.strides != b.strides) return share_by_counting(a, b);
  std::vector<StridedDim> dims;
  int64_t work = 1;
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    dims.push_back({a.strides[i], a.sizes[i], b.sizes[i]});
    work *= a.sizes[i] + b.sizes[i];
    if (work > kMaxSearchSteps) return true;  // The search would take too long, so an overlap is assumed.
  }
  std::sort(dims.begin(), dims.end(), [](const StridedDim& p, const StridedDim& q) { return p.stride > q.stride; });
  return reachable(b.offset - a.offset, dims, 0);
}

bool may_overlap_itself(const FixedType& type) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // Pairs of stride and size.
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.sizes[i] == 0) return false;
    if (type.sizes[i] > 1) dims.emplace_back(type.strides[i], type.sizes[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

}  // namespace tenon::ir
