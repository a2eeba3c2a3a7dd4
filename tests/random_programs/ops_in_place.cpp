// Ops that overwrite an operand: whole tensors, slices through views, out= tensors.
#include "random_programs/ops.h"

namespace tenon::random_programs {
namespace {

Tensor slice_of(const Tensor& t, Parameters& p) {
  require(t.dim() > 0 && t.size(0) > 0);
  switch (p.below(0, 4)) {
    case 0:
      return t.select(0, p.below(1, t.size(0)));
    case 1:
      return t.narrow(0, p.below(1, t.size(0)), 1);
    case 2:
      return t.slice(0, p.below(1, 2), std::nullopt, 2);
    default:
      return t.transpose(0, -1);
  }
}

Tensor without_grad(Tensor (*body)(const Tensors&), const Tensors& x) {
  torch::NoGradGuard no_grad;
  return body(x);
}

Tensor swap_contents(const Tensors& x) {
  Tensor kept = x[0].clone();
  x[0].copy_(x[1]);
  x[1].copy_(kept);
  return kept;
}

// Accesses the same memory through three handles, one of them created before the write.
Tensor write_under_view(const Tensor& t, Parameters& p) {
  Tensor view = slice_of(t, p), before = view.clone();
  t.mul_(2);
  return view + before;
}

}  // namespace

#define IN_PLACE(name) \
  { #name, Wants::any, 1, Fit::any, DO(x[0].name()) }
#define IN_PLACE2(name) \
  { #name, Wants::any, 2, Fit::broadcast, DO(x[0].name(x[1])) }

const std::vector<Op> in_place_ops = {
    IN_PLACE(relu_),
    IN_PLACE(sigmoid_),
    IN_PLACE(tanh_),
    IN_PLACE(exp_),
    IN_PLACE(neg_),
    IN_PLACE(abs_),
    IN_PLACE(zero_),
    {"floor_", Wants::floating, 1, Fit::any, DO(x[0].mul_(1.37).add_(0.21).floor_())},
    {"round_", Wants::floating, 1, Fit::any, DO(x[0].mul_(1.37).add_(0.21).round_())},
    IN_PLACE(logical_not_),
    IN_PLACE(sqrt_),
    IN_PLACE(square_),
    IN_PLACE(tril_),
    IN_PLACE2(add_),
    IN_PLACE2(sub_),
    IN_PLACE2(mul_),
    IN_PLACE2(div_),
    IN_PLACE2(copy_),
    IN_PLACE2(pow_),
    IN_PLACE2(eq_),
    IN_PLACE2(lt_),
    IN_PLACE2(logical_and_),
    IN_PLACE2(bitwise_or_),
    {"floor_divide_", Wants::any, 2, Fit::broadcast, DO(x[0].floor_divide_(divisor(x[1])))},
    IN_PLACE2(atan2_),
    {"add_ scalar", Wants::any, 1, Fit::any, DO(x[0].add_(p.scalar(0)))},
    {"mul_ scalar", Wants::any, 1, Fit::any, DO(x[0].mul_(p.scalar(0)))},
    {"fill_", Wants::any, 1, Fit::any, DO(x[0].fill_(p.scalar(0)))},
    {"clamp_", Wants::any, 1, Fit::any, DO(x[0].clamp_(-1, p.scalar(0)))},
    {"add_ self", Wants::any, 1, Fit::any, DO(x[0].add_(x[0]))},
    {"addcmul_", Wants::any, 3, Fit::alike, DO(x[0].addcmul_(x[1], x[2], p.scalar(0)))},
    {"lerp_", Wants::floating, 2, Fit::alike, DO(x[0].lerp_(x[1], p.real(0)))},
    {"masked_fill_", Wants::any, 2, Fit::broadcast, DO(x[0].masked_fill_(x[1].to(torch::kBool), p.scalar(0)))},
    {"cumsum_", Wants::any, 1, Fit::any, DO(x[0].cumsum_(p.dim(0, x[0])))},
    {"leaky_relu_", Wants::floating, 1, Fit::any, DO(torch::leaky_relu_(target(x[0]), 0.1))},
    {"fill_diagonal_", Wants::any, 1, Fit::any, DO(x[0].fill_diagonal_(p.scalar(0)))},
    {"transpose_", Wants::any, 1, Fit::any, DO(x[0].transpose_(p.dim(0, x[0]), p.dim(1, x[0])))},
    {"unsqueeze_", Wants::any, 1, Fit::any, DO(x[0].unsqueeze_(p.dim(0, x[0])))},
    {"squeeze_", Wants::any, 1, Fit::any, DO(x[0].squeeze_())},
    {"t_", Wants::any, 1, Fit::any, DO(x[0].t_())},
    {"add out", Wants::any, 3, Fit::same, DO(at::add_out(target(x[0]), x[1], x[2]))},
    {"exp out", Wants::floating, 2, Fit::same, DO(at::exp_out(target(x[0]), x[1]))},
    {"mul out self", Wants::any, 2, Fit::same, DO(at::mul_out(target(x[0]), x[0], x[1]))},
};

const std::vector<Op> view_write_ops = {
    {"slice add_", Wants::any, 1, Fit::any, DO(slice_of(x[0], p).add_(1))},
    {"slice mul_", Wants::any, 1, Fit::any, DO(slice_of(x[0], p).mul_(p.scalar(2)))},
    {"slice zero_", Wants::any, 1, Fit::any, DO(slice_of(x[0], p).zero_())},
    {"slice sigmoid_", Wants::any, 1, Fit::any, DO(slice_of(x[0], p).sigmoid_())},
    {"slice copy_", Wants::any, 2, Fit::broadcast, DO(slice_of(x[0], p).copy_(x[1].flatten().narrow(0, 0, 1)))},
    {"slice add_ slice", Wants::any, 1, Fit::any, DO(slice_of(x[0], p).add_(x[0].select(0, 0)))},
    {"slice of slice", Wants::any, 1, Fit::any, DO(slice_of(slice_of(x[0], p), p).mul_(3))},
    {"flat add_", Wants::any, 1, Fit::any, DO(x[0].view(-1).narrow(0, 0, 1).add_(2))},
    {"flat fill_", Wants::any, 1, Fit::any, DO(x[0].view(-1).slice(0, 1, std::nullopt, 2).fill_(p.scalar(0)))},
    {"diagonal add_", Wants::any, 1, Fit::any, DO(x[0].diagonal().add_(p.scalar(0)))},
    {"diagonal copy_", Wants::any, 2, Fit::same, DO(x[0].diagonal().copy_(x[1].diagonal()))},
    {"rows copy_ back", Wants::any, 1, Fit::any, DO(x[0].copy_(x[0].flip(0)))},
    {"transposed add_", Wants::any, 1, Fit::any, DO(x[0].add_(x[0].mT().clone()))},
    {"detached mul_", Wants::any, 1, Fit::any, DO(x[0].detach().mul_(2))},
    {"data add_", Wants::any, 1, Fit::any, DO(x[0].data().add_(1))},
    {"no_grad mul_", Wants::any, 2, Fit::broadcast, DO(without_grad([](const Tensors& t) { return t[0].mul_(t[1]); }, x))},
    {"no_grad add", Wants::any, 2, Fit::broadcast, DO(without_grad([](const Tensors& t) { return t[0] + t[1]; }, x))},
    {"swap contents", Wants::any, 2, Fit::same, DO(swap_contents(x))},
    {"write under view", Wants::any, 1, Fit::any, DO(write_under_view(x[0], p))},
    {"index put slice", Wants::any, 1, Fit::any, DO(target(x[0]).index_put_({torch::indexing::Slice(0, 1)}, torch::Scalar(2)))},
    {"foreach add_", Wants::any, 2, Fit::same, DO((at::_foreach_add_({x[0], x[1]}, 1), x[0]))},
};

#undef IN_PLACE
#undef IN_PLACE2

}  // namespace tenon::random_programs
