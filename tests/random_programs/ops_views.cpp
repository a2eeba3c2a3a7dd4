// Views, and ops that only move elements.
#include "random_programs/ops.h"

namespace tenon::random_programs {
namespace {

std::vector<int64_t> new_shape(const Tensor& t, Parameters& p) {
  std::vector<int64_t> reversed(t.sizes().rbegin(), t.sizes().rend());
  switch (p.below(0, 6)) {
    case 0:
      return {t.numel()};
    case 1:
      return {1, t.numel()};
    case 2:
      return reversed;
    case 3:
      return {2, t.numel() / 2};
    case 4:
      return {t.numel(), 1, 1};
    default:
      reversed.insert(reversed.begin(), 1);
      return reversed;
  }
}

std::vector<int64_t> rotation(const Tensor& t, Parameters& p) {
  std::vector<int64_t> dims;
  int64_t by = p.below(0, t.dim());
  for (int64_t i = 0; i < t.dim(); ++i) dims.push_back((i + by) % t.dim());
  if (p.flag(1)) std::reverse(dims.begin(), dims.end());
  return dims;
}

std::vector<int64_t> wider(const Tensor& t, Parameters& p) {
  std::vector<int64_t> sizes = t.sizes().vec();
  for (int64_t& size : sizes)
    if (size == 1) size = 1 + p.below(0, 4);
  if (p.flag(1)) sizes.insert(sizes.begin(), p.below(2, 4));
  return sizes;
}

Tensor narrowed(const Tensor& t, Parameters& p) {
  require(t.dim() > 0);
  int64_t dim = p.dim(0, t), start = p.below(1, t.size(dim) + 1);
  return t.narrow(dim, start, p.below(2, t.size(dim) - start + 1));
}

Tensor sliced(const Tensor& t, Parameters& p) {
  require(t.dim() > 0);
  return t.slice(p.dim(0, t), p.below(1, 3), std::nullopt, 1 + p.below(2, 3));
}

Tensor selected(const Tensor& t, Parameters& p) {
  require(t.dim() > 0);
  int64_t dim = p.dim(0, t), size = t.size(dim);
  require(size > 0);
  return t.select(dim, p.below(1, 2 * size) - size);
}

Tensor overlaid(const Tensor& t, Parameters& p) {
  require(t.is_contiguous() && t.numel() >= 2);
  int64_t windows = 1 + p.below(0, t.numel() - 1);
  return t.as_strided({windows, 2}, {1, 1});  // Overlapping windows.
}

Tensor repeated(const Tensor& t, Parameters& p) {
  require(t.numel() <= 512 && t.dim() < kMaxRank);
  std::vector<int64_t> times(t.dim() + p.below(0, 2), 1);
  require(!times.empty());
  times[p.below(1, static_cast<int64_t>(times.size()))] = p.below(2, 4);
  return t.repeat(times);
}

Tensors bounded_list(Tensors list) {
  require(list.size() <= 6);
  return list;
}

}  // namespace

#define VIEW(name, ...) \
  { name, Wants::any, 1, Fit::any, DO(__VA_ARGS__) }

const std::vector<Op> view_ops = {
    VIEW("transpose", x[0].transpose(p.dim(0, x[0]), p.dim(1, x[0]))),
    VIEW("permute", x[0].permute(rotation(x[0], p))),
    VIEW("view", x[0].view(new_shape(x[0], p))),
    VIEW("reshape", x[0].reshape(new_shape(x[0], p))),
    VIEW("flatten", x[0].flatten()),
    VIEW("squeeze", x[0].squeeze()),
    VIEW("squeeze dim", x[0].squeeze(p.dim(0, x[0]))),
    VIEW("unsqueeze", x[0].unsqueeze(p.dim(0, x[0]))),
    VIEW("expand", x[0].expand(wider(x[0], p))),
    {"expand_as", Wants::any, 2, Fit::broadcast, DO(x[0].expand_as(x[1]))},
    VIEW("select", selected(x[0], p)),
    VIEW("narrow", narrowed(x[0], p)),
    VIEW("slice", sliced(x[0], p)),
    VIEW("split", bounded_list(x[0].split(1 + p.below(0, 3), p.dim(1, x[0])))),
    VIEW("chunk", x[0].chunk(1 + p.below(0, 3), p.dim(1, x[0]))),
    VIEW("unbind", bounded_list(x[0].unbind(p.dim(0, x[0])))),
    VIEW("tensor_split", x[0].tensor_split(1 + p.below(0, 3), p.dim(1, x[0]))),
    VIEW("split_with_sizes", x[0].split_with_sizes({1, size_at(x[0], 0) - 1}, 0)),
    VIEW("diagonal", x[0].diagonal(p.below(0, 3) - 1, 0, -1)),
    VIEW("unfold", x[0].unfold(p.dim(0, x[0]), 1 + p.below(1, 2), 1 + p.below(2, 2))),
    VIEW("movedim", x[0].movedim(p.dim(0, x[0]), p.dim(1, x[0]))),
    VIEW("t", x[0].t()),
    VIEW("mT", x[0].mT()),
    VIEW("as_strided", overlaid(x[0], p)),
    VIEW("detach", x[0].detach()),
    VIEW("alias", torch::alias(x[0])),
    VIEW("data", x[0].data()),
    VIEW("unflatten", x[0].unflatten(p.dim(0, x[0]), {-1, 1})),
    VIEW("view_as_ints", x[0].view(x[0].element_size() == 4 ? torch::kInt : torch::kHalf)),
    VIEW("contiguous", x[0].contiguous()),
    VIEW("same type", x[0].to(x[0].scalar_type())),
    VIEW("index none", x[0].index({torch::indexing::None, torch::indexing::Ellipsis})),
    VIEW("index slice", x[0].index({torch::indexing::Slice(torch::indexing::None, torch::indexing::None, 2)})),
    {"view_as", Wants::any, 2, Fit::same, DO(x[0].view_as(x[1]))},
};

const std::vector<Op> shape_ops = {
    VIEW("clone", x[0].clone()),
    VIEW("clone contiguous", x[0].clone(at::MemoryFormat::Contiguous)),
    VIEW("flip", x[0].flip(p.dim(0, x[0]))),
    VIEW("roll", x[0].roll(p.below(0, 4), p.dim(1, x[0]))),
    VIEW("rot90", x[0].rot90(p.below(0, 4))),
    VIEW("repeat", repeated(x[0], p)),
    VIEW("repeat_interleave", x[0].repeat_interleave(p.below(0, 3), p.dim(1, x[0]))),
    VIEW("tril", x[0].tril(p.below(0, 3) - 1)),
    VIEW("triu", x[0].triu(p.below(0, 3) - 1)),
    VIEW("diag", x[0].diag()),
    VIEW("diag_embed", (require(x[0].numel() <= 512), x[0].diag_embed())),
    VIEW("pad", torch::constant_pad_nd(x[0], {p.below(0, 2), p.below(1, 3)}, p.scalar(2))),
    VIEW("reflect pad", torch::reflection_pad1d(x[0], {p.below(0, 2), p.below(1, 3)})),
    VIEW("narrow_copy", x[0].narrow_copy(p.dim(0, x[0]), 0, p.below(1, 3))),
    VIEW("atleast_2d", torch::atleast_2d(x[0])),
    {"cat", Wants::any, 2, Fit::same, DO(torch::cat({x[0], x[1]}, p.dim(0, x[0])))},
    {"cat three", Wants::any, 3, Fit::same, DO(torch::cat({x[0], x[1], x[2]}, p.dim(0, x[0])))},
    {"stack", Wants::any, 2, Fit::same, DO(torch::stack({x[0], x[1]}, p.dim(0, x[0])))},
    {"hstack", Wants::any, 2, Fit::same, DO(torch::hstack({x[0], x[1]}))},
    {"broadcast_tensors", Wants::any, 2, Fit::broadcast, DO(torch::broadcast_tensors({x[0], x[1]}))},
    {"meshgrid", Wants::any, 2, Fit::same, DO(torch::meshgrid({x[0], x[1]}, "ij"))},
    {"block_diag", Wants::any, 2, Fit::same, DO((require(x[0].numel() < 64), torch::block_diag({x[0], x[1]})))},
};

#undef VIEW

}  // namespace tenon::random_programs
