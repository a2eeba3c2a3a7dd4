// Ops that draw from the random generator, and factory functions.
#include "random_programs/ops.h"

namespace tenon::random_programs {

const std::vector<Op> random_ops = {
    {"dropout", Wants::floating, 1, Fit::any, DO(torch::dropout(x[0], 0.5, true))},
    {"dropout_", Wants::floating, 1, Fit::any, DO(torch::dropout_(target(x[0]), 0.25, true))},
    {"native_dropout", Wants::floating, 1, Fit::any, DO(torch::native_dropout(x[0], 0.5, true))},
    {"feature_dropout", Wants::floating, 1, Fit::any, DO(torch::feature_dropout(x[0], 0.5, true))},
    {"alpha_dropout", Wants::floating, 1, Fit::any, DO(torch::alpha_dropout(x[0], 0.5, true))},
    {"rand_like", Wants::floating, 1, Fit::any, DO(torch::rand_like(x[0]))},
    {"randn_like", Wants::floating, 1, Fit::any, DO(torch::randn_like(x[0]) + x[0])},
    {"randint_like", Wants::any, 1, Fit::any, DO(torch::randint_like(x[0], 5))},
    {"bernoulli", Wants::floating, 1, Fit::any, DO(torch::bernoulli(x[0].sigmoid().nan_to_num(0.5)))},
    {"bernoulli_", Wants::any, 1, Fit::any, DO(x[0].bernoulli_(0.5))},
    {"normal_", Wants::floating, 1, Fit::any, DO(x[0].normal_(0, p.real(0)))},
    {"slice normal_", Wants::floating, 1, Fit::any, DO((require(x[0].dim() > 0 && x[0].size(0) > 0), x[0].select(0, 0).normal_()))},
    {"uniform_", Wants::floating, 1, Fit::any, DO(x[0].uniform_(-1, 1))},
    {"exponential_", Wants::floating, 1, Fit::any, DO(x[0].exponential_())},
    {"random_", Wants::any, 1, Fit::any, DO(x[0].random_(0, 2))},
    {"geometric_", Wants::floating, 1, Fit::any, DO(x[0].geometric_(0.5))},
    {"log_normal_", Wants::floating, 1, Fit::any, DO(x[0].log_normal_())},
    {"cauchy_", Wants::floating, 1, Fit::any, DO(x[0].cauchy_())},
    {"rand", Wants::any, 1, Fit::any, DO(torch::rand(x[0].sizes()))},
    {"randn", Wants::any, 1, Fit::any, DO(torch::randn({p.below(0, 5), 2}))},
    {"randint", Wants::any, 1, Fit::any, DO(torch::randint(0, 5, x[0].sizes(), torch::kLong))},
    {"randperm", Wants::any, 1, Fit::any, DO(torch::randperm(p.below(0, 6)))},
    {"multinomial", Wants::floating, 1, Fit::any,
     DO((require(x[0].dim() > 0), torch::multinomial(x[0].nan_to_num(1, 1, 1).softmax(-1).to(torch::kFloat) + 0.1, 2, true)))},
    {"rrelu", Wants::floating, 1, Fit::any, DO(torch::rrelu(x[0], 0.1, 0.3, true))},
    {"normal of means", Wants::floating, 1, Fit::any, DO(at::normal(x[0], 1.0))},
    {"poisson", Wants::floating, 1, Fit::any, DO(torch::poisson(x[0].sigmoid().nan_to_num(0.5)))},
    {"empty normal_", Wants::any, 1, Fit::any, DO(torch::empty(x[0].sizes()).normal_())},
};

const std::vector<Op> factory_ops = {
    {"zeros", Wants::any, 1, Fit::any, DO(torch::zeros(x[0].sizes(), x[0].options()))},
    {"ones", Wants::any, 1, Fit::any, DO(torch::ones(x[0].sizes(), p.dtype(0)))},
    {"full", Wants::any, 1, Fit::any, DO(torch::full(x[0].sizes(), p.scalar(0), torch::dtype(p.dtype(1))))},
    {"arange", Wants::any, 1, Fit::any, DO(torch::arange(size_at(x[0], -1), p.dtype(0)))},
    {"arange steps", Wants::any, 1, Fit::any, DO(torch::arange(0, 2, 0.5))},
    {"linspace", Wants::any, 1, Fit::any, DO(torch::linspace(-1, 1, size_at(x[0], -1)))},
    {"logspace", Wants::any, 1, Fit::any, DO(torch::logspace(0, 1, p.below(0, 5)))},
    {"eye", Wants::any, 1, Fit::any, DO(torch::eye(p.below(0, 5), 1 + p.below(1, 4)))},
    {"zeros_like", Wants::any, 1, Fit::any, DO(torch::zeros_like(x[0]))},
    {"ones_like", Wants::any, 1, Fit::any, DO(torch::ones_like(x[0], p.dtype(0)))},
    {"full_like", Wants::any, 1, Fit::any, DO(torch::full_like(x[0], p.scalar(0)))},
    {"new_zeros", Wants::any, 1, Fit::any, DO(x[0].new_zeros({p.below(0, 4), 2}))},
    {"new_full", Wants::any, 1, Fit::any, DO(x[0].new_full({2, p.below(0, 4)}, p.scalar(1)))},
    {"new_ones", Wants::any, 1, Fit::any, DO(x[0].new_ones(x[0].sizes()))},
    {"scalar_tensor", Wants::any, 1, Fit::any, DO(at::scalar_tensor(p.scalar(0)))},
    {"empty fill_", Wants::any, 1, Fit::any, DO(torch::empty(x[0].sizes(), x[0].options()).fill_(p.scalar(0)))},
    {"empty_like copy_", Wants::any, 1, Fit::any, DO(torch::empty_like(x[0]).copy_(x[0]))},
    {"tril_indices", Wants::any, 1, Fit::any, DO(torch::tril_indices(p.below(0, 4), 3))},
    {"bartlett_window", Wants::any, 1, Fit::any, DO(torch::bartlett_window(1 + p.below(0, 5)))},
};

}  // namespace tenon::random_programs
