// Reads and writes at positions given by index tensors.
#include "random_programs/ops.h"

namespace tenon::random_programs {
namespace {

// Returns indices of the shape of `like`, valid along one dimension of `into`.
Tensor positions(const Tensor& like, const Tensor& into, int64_t dim) { return indices_from(like, size_at(into, dim)); }

Tensor scattered(const Tensors& x, Parameters& p) {
  int64_t dim = p.dim(0, x[0]);
  return torch::scatter(x[0], dim, positions(x[1], x[0], dim), x[1]);
}

Tensor scatter_added(const Tensors& x, Parameters& p, bool in_place) {
  int64_t dim = p.dim(0, x[0]);
  Tensor index = positions(x[1], x[0], dim);
  return in_place ? x[0].scatter_add_(dim, index, x[1]) : torch::scatter_add(x[0], dim, index, x[1]);
}

Tensor scatter_reduced(const Tensors& x, Parameters& p) {
  static const std::string kinds[] = {"sum", "prod", "mean", "amax", "amin"};
  int64_t dim = p.dim(0, x[0]);
  return torch::scatter_reduce(x[0], dim, positions(x[1], x[0], dim), x[1], p.pick(1, kinds), p.flag(2));
}

// Returns an index tensor along `dim`, and slices of x[0] to write there.
struct Rows {
  int64_t dim;
  Tensor index, values;
  Rows(const Tensor& t, Parameters& p) : dim(p.dim(0, t)) {
    require(t.dim() > 0);
    index = some_indices(p, 1, t.size(dim));
    values = t.index_select(dim, index).detach() * 2;
  }
};

Tensor index_put(const Tensor& t, Parameters& p, bool accumulate, bool in_place) {
  require(t.dim() > 0);
  Tensor index = some_indices(p, 0, t.size(0));
  Tensor values = torch::ones({}, t.options());
  c10::List<std::optional<Tensor>> where;
  where.push_back(index);
  return in_place ? t.index_put_(where, values, accumulate) : t.index_put(where, values, accumulate);
}

Tensor embedded(const Tensors& x) {
  require(x[0].dim() == 2 && x[1].numel() * x[0].size(1) <= kMaxElements);
  return torch::embedding(x[0], indices_from(x[1], x[0].size(0)));
}

Tensor taken_along(const Tensors& x, Parameters& p) {
  int64_t dim = p.dim(0, x[0]);
  return torch::take_along_dim(x[0], positions(x[1], x[0], dim), dim);
}

}  // namespace

const std::vector<Op> indexing_ops = {
    {"index_select", Wants::any, 1, Fit::any, DO(x[0].index_select(p.dim(0, x[0]), some_indices(p, 1, size_at(x[0], p.dim(0, x[0])))))},
    {"gather", Wants::any, 2, Fit::same, DO(torch::gather(x[0], p.dim(0, x[0]), positions(x[1], x[0], p.dim(0, x[0]))))},
    {"take", Wants::any, 2, Fit::any, DO(torch::take(x[0], indices_from(x[1], x[0].numel())))},
    {"take_along_dim", Wants::any, 2, Fit::same, DO(taken_along(x, p))},
    {"index", Wants::any, 2, Fit::any, DO((require(x[0].dim() > 0 && x[0].numel() * x[1].numel() < 2048), x[0].index({indices_from(x[1], x[0].size(0))})))},
    {"index second", Wants::any, 1, Fit::any, DO((require(x[0].dim() > 1), x[0].index({torch::indexing::Slice(), some_indices(p, 0, x[0].size(1))})))},
    {"embedding", Wants::floating, 2, Fit::any, DO(embedded(x))},
    {"masked_fill", Wants::any, 2, Fit::broadcast, DO(x[0].masked_fill(x[1].to(torch::kBool), p.scalar(0)))},
    {"masked_fill tensor", Wants::any, 2, Fit::alike, DO(x[0].masked_fill(x[1] > 0, x[1].sum().to(x[0].scalar_type())))},
    {"scatter", Wants::any, 2, Fit::same, DO(scattered(x, p))},
    {"scatter scalar", Wants::any, 2, Fit::same, DO(x[0].scatter(p.dim(0, x[0]), positions(x[1], x[0], p.dim(0, x[0])), p.scalar(1)))},
    {"scatter_ scalar", Wants::any, 2, Fit::same, DO(x[0].scatter_(p.dim(0, x[0]), positions(x[1], x[0], p.dim(0, x[0])), p.scalar(1)))},
    {"scatter_add", Wants::any, 2, Fit::same, DO(scatter_added(x, p, false))},
    {"scatter_add_", Wants::any, 2, Fit::same, DO(scatter_added(x, p, true))},
    {"scatter_reduce", Wants::any, 2, Fit::same, DO(scatter_reduced(x, p))},
    {"index_add", Wants::any, 1, Fit::any, [](const Tensors& x, Parameters& p) -> Tensors { Rows r(x[0], p); return {x[0].index_add(r.dim, r.index, r.values)}; }},
    {"index_add_", Wants::any, 1, Fit::any, [](const Tensors& x, Parameters& p) -> Tensors { Rows r(x[0], p); return {x[0].index_add_(r.dim, r.index, r.values)}; }},
    {"index_copy", Wants::any, 1, Fit::any, [](const Tensors& x, Parameters& p) -> Tensors { Rows r(x[0], p); return {x[0].index_copy(r.dim, r.index, r.values)}; }},
    {"index_copy_", Wants::any, 1, Fit::any, [](const Tensors& x, Parameters& p) -> Tensors { Rows r(x[0], p); return {x[0].index_copy_(r.dim, r.index, r.values)}; }},
    {"index_fill", Wants::any, 1, Fit::any, DO(x[0].index_fill(p.dim(0, x[0]), some_indices(p, 1, size_at(x[0], p.dim(0, x[0]))), p.scalar(2)))},
    {"index_fill_", Wants::any, 1, Fit::any, DO(x[0].index_fill_(p.dim(0, x[0]), some_indices(p, 1, size_at(x[0], p.dim(0, x[0]))), p.scalar(2)))},
    {"index_put", Wants::any, 1, Fit::any, DO(index_put(x[0], p, true, false))},
    {"index_put_", Wants::any, 1, Fit::any, DO(index_put(x[0], p, false, true))},
    {"index_put_ add", Wants::any, 1, Fit::any, DO(index_put(x[0], p, true, true))},
    {"select_scatter", Wants::any, 1, Fit::any, DO((require(x[0].dim() > 0 && x[0].size(0) > 0), torch::select_scatter(x[0], x[0].select(0, 0) * 2, 0, p.below(0, x[0].size(0)))))},
    {"slice_scatter", Wants::any, 2, Fit::same, DO((require(x[0].dim() > 0), torch::slice_scatter(x[0], x[1].slice(0, 0, 1), 0, 0, 1)))},
    {"diagonal_scatter", Wants::any, 2, Fit::same, DO(torch::diagonal_scatter(x[0], x[1].diagonal()))},
    {"masked_scatter", Wants::any, 2, Fit::same, DO(x[0].masked_scatter(x[1] > 0, x[1]))},
    {"put", Wants::any, 1, Fit::any, DO(x[0].put(some_indices(p, 0, x[0].numel()), torch::ones({p.below(0, 5)}, x[0].options()), p.flag(1)))},
    {"bucketize", Wants::any, 1, Fit::any, DO(torch::bucketize(x[0], torch::arange(4, torch::kFloat)))},
    {"searchsorted", Wants::any, 2, Fit::same, DO(torch::searchsorted(std::get<0>(x[0].sort(-1)), x[1]))},
    {"isin", Wants::any, 2, Fit::alike, DO(torch::isin(x[0], x[1]))},
};

}  // namespace tenon::random_programs
