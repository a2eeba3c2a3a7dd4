// Pooling, resizing, padding and pixel shuffle.
#include "support/program.h"

namespace tenon::test {

struct Pooling : Program {
  torch::nn::Conv2d conv{3, 4, 3};

  Tensors inputs(int shape) override { return {torch::randn({2, 3, shape ? 12 : 10, 10})}; }
  Tensors run(const Tensors& in) override {
    namespace F = torch::nn::functional;
    auto h = conv->forward(in[0]);
    auto larger =
        F::interpolate(h, F::InterpolateFuncOptions().size(std::vector<int64_t>{12, 12}).mode(torch::kBilinear).align_corners(false));
    auto doubled = F::interpolate(h, F::InterpolateFuncOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kNearest));
    auto [top, where] = torch::max_pool2d_with_indices(h, 2);
    return {larger,
            doubled,
            top,
            where,
            torch::avg_pool2d(h, 3, 2),
            std::get<0>(torch::adaptive_max_pool2d(h, {3, 3})),
            torch::pixel_shuffle(h, 2),
            F::pad(h, F::PadFuncOptions({1, 2, 1, 1}).mode(torch::kReflect))};
  }
  Tensors state() override { return conv->parameters(); }
};
TENON_PROGRAM(Pooling);

}  // namespace tenon::test
