// Layer, group, instance and local response norm.
#include "support/program.h"

namespace tenon::test {

struct Norms : Program {
  torch::nn::LayerNorm layer{torch::nn::LayerNormOptions({8})};
  torch::nn::GroupNorm group{torch::nn::GroupNormOptions(2, 4)};
  torch::nn::InstanceNorm1d instance{torch::nn::InstanceNorm1dOptions(4).affine(true).track_running_stats(true)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 4, 8})}; }
  Tensors run(const Tensors& in) override {
    auto x = in[0];
    return {layer->forward(x), group->forward(x), instance->forward(x), torch::nn::functional::normalize(layer->forward(x) * 2),
            torch::rms_norm(x, {8}, layer->weight)};
  }
  Tensors state() override {
    Tensors all{layer->weight, layer->bias, group->weight, group->bias};
    for (auto& p : instance->parameters()) all.push_back(p);
    for (auto& b : instance->buffers()) all.push_back(b);
    return all;
  }
};
TENON_PROGRAM(Norms);

}  // namespace tenon::test
