// Matrix products, convolutions and attention.
#include "random_programs/ops.h"

namespace tenon::random_programs {
namespace {

Tensor as_matrix(const Tensor& t) {
  require(t.dim() > 0);
  return t.reshape({-1, t.numel() == 0 ? 1 : t.size(-1)});
}

Tensor as_batch(const Tensor& t) {
  Tensor m = as_matrix(t);
  return m.reshape({1, m.size(0), m.size(1)});
}

Tensor small_batch(const Tensor& t) {
  require(t.numel() <= 256);
  return as_batch(t);
}

// Returns a convolution weight that is a view of the image itself.
Tensor kernel(const Tensor& image, int64_t width) {
  require(image.size(-1) >= width);
  return image.narrow(-1, 0, width);
}

Tensor attention(const Tensor& t, bool causal) {
  Tensor q = small_batch(t).unsqueeze(0);
  return at::scaled_dot_product_attention(q, q.cos(), q.sin(), {}, 0.0, causal);
}

}  // namespace

const std::vector<Op> matrix_ops = {
    {"matmul", Wants::any, 2, Fit::inner, DO(torch::matmul(x[0], x[1]))},
    {"matmul mT", Wants::any, 2, Fit::same, DO((require(x[0].numel() < 256), torch::matmul(x[0], x[1].mT())))},
    {"mT matmul", Wants::any, 2, Fit::same, DO((require(x[0].numel() < 256), torch::matmul(x[0].mT(), x[1])))},
    {"mm", Wants::any, 2, Fit::same, DO((require(x[0].numel() < 256), torch::mm(as_matrix(x[0]), as_matrix(x[1]).t())))},
    {"bmm", Wants::any, 2, Fit::same, DO((require(x[0].numel() < 256), torch::bmm(as_batch(x[0]), as_batch(x[1]).transpose(1, 2))))},
    {"addmm", Wants::any, 2, Fit::same,
     DO(torch::addmm(x[1].flatten().narrow(0, 0, 1), as_matrix(x[0]).t(), as_matrix(x[1]), p.scalar(0), 0.5))},
    {"addmm_", Wants::floating, 2, Fit::same,
     DO((require(x[0].dim() == 2), x[0].addmm_(x[1], torch::ones({x[0].size(1), x[0].size(1)}, x[0].options()))))},
    {"baddbmm", Wants::floating, 2, Fit::same,
     DO(torch::baddbmm(as_batch(x[0]).sum(), as_batch(x[0]).transpose(1, 2), as_batch(x[1]), 1, p.scalar(0)))},
    {"linear", Wants::floating, 2, Fit::same, DO((require(x[0].numel() < 256), torch::linear(x[0], as_matrix(x[1]))))},
    {"linear bias", Wants::floating, 2, Fit::same,
     DO((require(x[0].numel() < 256), torch::linear(x[0], as_matrix(x[1]), as_matrix(x[1]).select(1, 0))))},
    {"mv", Wants::any, 2, Fit::same, DO(torch::mv(as_matrix(x[0]), as_matrix(x[1]).select(0, 0)))},
    {"dot", Wants::any, 2, Fit::same, DO(torch::dot(x[0].flatten(), x[1].flatten()))},
    {"outer", Wants::any, 2, Fit::broadcast,
     DO((require(x[0].numel() * x[1].numel() <= 1024), torch::outer(x[0].flatten(), x[1].flatten())))},
    {"inner", Wants::any, 2, Fit::same, DO((require(x[0].numel() < 128), torch::inner(x[0], x[1])))},
    {"einsum", Wants::any, 2, Fit::same, DO((require(x[0].numel() < 256), torch::einsum("...i,...j->...ij", {x[0], x[1]})))},
    {"einsum contract", Wants::floating, 2, Fit::same, DO(torch::einsum("ij,ij->j", {as_matrix(x[0]), as_matrix(x[1])}))},
    {"tensordot", Wants::any, 2, Fit::same, DO((require(x[0].numel() < 128), torch::tensordot(x[0], x[1], {-1}, {-1})))},
    {"kron", Wants::any, 2, Fit::alike, DO((require(x[0].numel() * x[1].numel() <= 1024), torch::kron(x[0], x[1])))},
    {"cross", Wants::any, 2, Fit::same, DO(torch::linalg_cross(x[0], x[1]))},
    {"matrix_power", Wants::floating, 1, Fit::any, DO(torch::matrix_power(x[0], p.below(0, 4)))},
    {"addr", Wants::any, 1, Fit::any,
     DO((require(x[0].numel() < 64), torch::addr(x[0].flatten().narrow(0, 0, 1), x[0].flatten(), x[0].flatten())))},
    {"cdist", Wants::floating, 2, Fit::same, DO(torch::cdist(small_batch(x[0]), small_batch(x[1])))},
    {"cosine_similarity", Wants::floating, 2, Fit::same, DO(torch::cosine_similarity(x[0], x[1], p.dim(0, x[0])))},
    {"conv1d", Wants::floating, 1, Fit::any,
     DO(torch::conv1d(small_batch(x[0]), kernel(small_batch(x[0]), 1 + p.below(0, 3)), {}, 1, p.below(1, 2)))},
    {"conv2d", Wants::floating, 1, Fit::any,
     DO(torch::conv2d(small_batch(x[0]).unsqueeze(0), torch::ones({2, 1, 2, 2}, x[0].options()), torch::ones({2}, x[0].options()), 1, 1))},
    {"conv_transpose1d", Wants::floating, 1, Fit::any,
     DO(torch::conv_transpose1d(small_batch(x[0]), kernel(small_batch(x[0]), 2).transpose(0, 1), {}, 1 + p.below(0, 2)))},
    {"attention", Wants::floating, 1, Fit::any, DO(attention(x[0], p.flag(0)))},
    {"linalg_norm", Wants::floating, 1, Fit::any, DO(torch::linalg_norm(x[0]))},
};

}  // namespace tenon::random_programs
