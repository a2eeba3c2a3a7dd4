#include "random_programs/ops.h"

namespace tenon::random_programs {

torch::Scalar Parameters::scalar(size_t index) {
  static const torch::Scalar values[] = {2, 0.5, 1, -1, 3, 0, -0.25, 1.5, true, 7.0};
  return pick(index, values);
}

double Parameters::real(size_t index) {
  static const double values[] = {0.5, 1.0, 2.0, 0.1, 1e-5, 3.0, -1.0};
  return pick(index, values);
}

torch::ScalarType Parameters::dtype(size_t index) {
  static const torch::ScalarType dtypes[] = {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf,
                                             torch::kLong,  torch::kInt,    torch::kByte,     torch::kBool};
  return pick(index, dtypes);
}

std::string Parameters::text() const {
  std::string out;
  for (size_t i = 0; i < kCount; ++i)
    if (used[i]) out += " p" + std::to_string(i) + "=" + std::to_string(values[i]);
  return out;
}

Tensor indices_from(const Tensor& any, int64_t limit) {
  require(limit > 0);
  return any.detach().to(torch::kLong).remainder(limit);
}

Tensor some_indices(Parameters& p, size_t index, int64_t limit) {
  require(limit > 0);
  return torch::arange(p.below(index, 5), torch::kLong).mul(3).remainder(limit);
}

int64_t size_at(const Tensor& t, int64_t dim) { return t.dim() == 0 ? 1 : t.size(dim); }

const std::vector<Family>& families() {
  static const std::vector<Family> all = {{"pointwise", 18, pointwise_ops},
                                          {"binary", 16, binary_ops},
                                          {"reductions", 11, reduction_ops},
                                          {"views", 15, view_ops},
                                          {"shapes", 6, shape_ops},
                                          {"in-place", 9, in_place_ops},
                                          {"writes to views", 5, view_write_ops},
                                          {"matrix", 7, matrix_ops},
                                          {"indexing", 8, indexing_ops},
                                          {"norm", 6, norm_ops},
                                          {"factories", 4, factory_ops},
                                          {"random", 18, random_ops, /*random=*/true},
                                          {"host", 14, host_ops, /*random=*/false, /*reads_on_host=*/true}};
  return all;
}

const std::vector<const Op*>& all_ops() {
  static const std::vector<const Op*> all = [] {
    std::vector<const Op*> list;
    for (const Family& family : families())
      for (const Op& op : family.ops) list.push_back(&op);
    return list;
  }();
  return all;
}

}  // namespace tenon::random_programs
