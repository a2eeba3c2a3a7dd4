// Convolutions with batch norm in train mode: the running statistics are written.
#include "support/program.h"

namespace tenon::test {

struct CnnBatchNormTrain : Program {
  torch::nn::Sequential net{torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(1)),
                            torch::nn::BatchNorm2d(4),
                            torch::nn::ReLU(),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).stride(2)),
                            torch::nn::BatchNorm2d(6),
                            torch::nn::ReLU(),
                            torch::nn::AdaptiveAvgPool2d(1),
                            torch::nn::Flatten(),
                            torch::nn::Linear(6, 5)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 3 : 2, 3, 8, 8})}; }
  Tensors run(const Tensors& in) override { return {net->forward(in[0])}; }
  Tensors state() override {
    Tensors all = net->parameters();
    for (auto& buffer : net->buffers()) all.push_back(buffer);
    return all;
  }
};
TENON_PROGRAM(CnnBatchNormTrain);

}  // namespace tenon::test
