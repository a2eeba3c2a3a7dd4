// bfloat16 autocast around the call.
#include <ATen/autocast_mode.h>

#include "support/program.h"

namespace tenon::test {

struct AutocastAround : Program {
  torch::nn::Sequential net{torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 4)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  void around(const std::function<void()>& call) override {
    bool enabled = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    call();
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
  }
  Tensors run(const Tensors& in) override {
    auto h = net->forward(in[0]);
    return {h, torch::softmax(h, -1)};
  }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(AutocastAround);

}  // namespace tenon::test
