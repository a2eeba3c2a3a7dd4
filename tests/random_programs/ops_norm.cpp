// Normalization, pooling and classification losses.
#include "random_programs/ops.h"

namespace tenon::random_programs {
namespace {

// Returns a view of shape [1, channels, length].
Tensor one_image(const Tensor& t) {
  require(t.dim() >= 2 && t.numel() > 0);
  return t.reshape({1, t.size(0), -1});
}

// Returns a view of shape [1, 1, height, width].
Tensor plane(const Tensor& t) {
  require(t.dim() >= 2 && t.numel() > 0);
  return t.reshape({1, 1, -1, t.size(-1)});
}

// The running statistics are views of x[1], so that training overwrites a slice of another tensor.
Tensor batch_norm(const Tensors& x, bool training) {
  Tensor image = one_image(x[0]), statistics = x[1].detach().view(-1);
  int64_t channels = image.size(1);
  require(statistics.numel() >= 2 * channels);
  return torch::batch_norm(image, {}, {}, statistics.narrow(0, 0, channels), statistics.narrow(0, channels, channels), training, 0.1, 1e-3,
                           false);
}

Tensor layer_norm(const Tensors& x, bool affine) {
  require(x[0].dim() > 0);
  std::vector<int64_t> sizes = {x[0].size(-1)};
  if (!affine) return torch::layer_norm(x[0], sizes);
  Tensor weight = x[1].select(0, 0).flatten().narrow(0, 0, 1).expand(sizes);
  return torch::layer_norm(x[0], sizes, weight.contiguous(), weight);
}

Tensor cross_entropy(const Tensor& t, Parameters& p) {
  require(t.dim() == 2 && t.size(1) > 0);
  Tensor target = indices_from(torch::arange(t.size(0), torch::kLong), t.size(1));
  return torch::cross_entropy_loss(t, target, {}, p.below(0, 3), -100, p.flag(1) ? 0.1 : 0.0);
}

}  // namespace

const std::vector<Op> norm_ops = {
    {"layer_norm", Wants::floating, 1, Fit::any, DO(layer_norm(x, false))},
    {"layer_norm affine", Wants::floating, 2, Fit::same, DO(layer_norm(x, true))},
    {"rms_norm", Wants::floating, 1, Fit::any, DO((require(x[0].dim() > 0), torch::rms_norm(x[0], {x[0].size(-1)})))},
    {"group_norm", Wants::floating, 1, Fit::any, DO(torch::group_norm(one_image(x[0]), x[0].size(0) % 2 == 0 ? 2 : 1))},
    {"instance_norm", Wants::floating, 1, Fit::any, DO(torch::instance_norm(one_image(x[0]), {}, {}, {}, {}, true, 0.1, 1e-3, false))},
    {"batch_norm", Wants::floating, 1, Fit::any, DO(torch::batch_norm(one_image(x[0]), {}, {}, {}, {}, true, 0.1, 1e-3, false))},
    {"batch_norm training", Wants::floating, 2, Fit::alike, DO(batch_norm(x, true))},
    {"batch_norm eval", Wants::floating, 2, Fit::alike, DO(batch_norm(x, false))},
    {"avg_pool1d", Wants::floating, 1, Fit::any, DO(torch::avg_pool1d(one_image(x[0]), 2))},
    {"avg_pool2d", Wants::floating, 1, Fit::any, DO(torch::avg_pool2d(plane(x[0]), 2, 1, p.below(0, 2)))},
    {"max_pool1d", Wants::floating, 1, Fit::any, DO(torch::max_pool1d(one_image(x[0]), 2, 1 + p.below(0, 2)))},
    {"max_pool2d", Wants::floating, 1, Fit::any, DO(torch::max_pool2d(plane(x[0]), 2, 1))},
    {"adaptive_avg_pool2d", Wants::floating, 1, Fit::any, DO(torch::adaptive_avg_pool2d(plane(x[0]), {1 + p.below(0, 2), 2}))},
    {"adaptive_max_pool1d", Wants::floating, 1, Fit::any, DO(torch::adaptive_max_pool1d(one_image(x[0]), 2))},
    {"upsample_nearest", Wants::floating, 1, Fit::any, DO(torch::upsample_nearest1d(one_image(x[0]), {1 + p.below(0, 8)}))},
    {"upsample_bilinear", Wants::floating, 1, Fit::any, DO(torch::upsample_bilinear2d(plane(x[0]), {3, 1 + p.below(0, 5)}, p.flag(1)))},
    {"cross_entropy", Wants::floating, 1, Fit::any, DO(cross_entropy(x[0], p))},
    {"glu", Wants::floating, 1, Fit::any, DO(torch::glu(x[0], p.dim(0, x[0])))},
    {"softmin", Wants::floating, 1, Fit::any, DO((-x[0]).softmax(p.dim(0, x[0])))},
    {"normalize", Wants::floating, 1, Fit::any, DO(x[0] / x[0].norm(2, {p.dim(0, x[0])}, true).clamp_min(1e-6).expand_as(x[0]))},
    {"soft_margin_loss", Wants::floating, 2, Fit::same, DO(torch::soft_margin_loss(x[0], x[1].sign()))},
};

}  // namespace tenon::random_programs
