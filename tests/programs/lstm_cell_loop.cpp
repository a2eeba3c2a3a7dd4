// A loop over time steps in C++ around an LSTM cell.
#include "support/program.h"

namespace tenon::test {

struct LstmCellLoop : Program {
  torch::nn::LSTMCell cell{6, 8};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 4 : 3, 2, 6})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::zeros({2, 8}), c = torch::zeros({2, 8});
    Tensors steps;
    for (const auto& x : in[0].unbind(0)) {
      std::tie(h, c) = cell->forward(x, std::make_tuple(h, c));
      steps.push_back(h);
    }
    return {torch::stack(steps), c};
  }
  Tensors state() override { return cell->parameters(); }
};
TENON_PROGRAM(LstmCellLoop);

}  // namespace tenon::test
