// The same network alternating between train and eval mode.
#include "support/program.h"

namespace tenon::test {

struct CnnBatchNormModes : Program {
  torch::nn::Sequential net{torch::nn::Conv2d(3, 4, 3), torch::nn::BatchNorm2d(4), torch::nn::ReLU(),
                            torch::nn::Dropout(0.3),    torch::nn::Flatten(),      torch::nn::Linear(144, 5)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 3 : 2, 3, 8, 8})}; }
  void before(int call) override { net->train(call % 2 == 0); }
  Tensors run(const Tensors& in) override { return {net->forward(in[0])}; }
  Tensors state() override {
    Tensors all = net->parameters();
    for (auto& buffer : net->buffers()) all.push_back(buffer);
    return all;
  }
  std::vector<Watched> watch() override { return {net}; }
};
TENON_PROGRAM(CnnBatchNormModes);

}  // namespace tenon::test
