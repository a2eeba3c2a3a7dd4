// Inference mode around the call: the results are inference tensors.
#include "support/program.h"

namespace tenon::test {

struct InferenceModeAround : Program {
  torch::nn::Sequential net{torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 4)};
  torch::Tensor calls = torch::zeros({4});

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  void around(const std::function<void()>& call) override {
    c10::InferenceMode on;
    call();
  }
  Tensors run(const Tensors& in) override {
    auto h = net->forward(in[0]);
    calls.add_(1);
    return {h, h.view(-1), h + calls};
  }
  Tensors state() override {
    Tensors all = net->parameters();
    all.push_back(calls);
    return all;
  }
};
TENON_PROGRAM(InferenceModeAround);

}  // namespace tenon::test
