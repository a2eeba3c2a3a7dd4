// train() and eval() alternate, with dropout and batch norm.
#include "traps/trap.h"

namespace tenon::test {

struct TrainEval : Trap {
  torch::nn::Sequential net{torch::nn::BatchNorm1d(8), torch::nn::Dropout(0.3)};

  torch::Tensor body(torch::Tensor x) override { return fc2(net->forward(fc(x))); }
  void before(int index) override {
    call = index;
    net->train(call / 2 % 2 == 0);
  }
  Tensors state() override {
    Tensors all = Trap::state();
    for (auto& t : net->parameters()) all.push_back(t);
    for (auto& t : net->buffers()) all.push_back(t);
    return all;
  }
};
TENON_PROGRAM(TrainEval);

}  // namespace tenon::test
