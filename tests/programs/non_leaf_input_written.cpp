// An input with autograd history is written in place: the write becomes part of the history.
#include "support/program.h"

namespace tenon::test {

struct NonLeafInputWritten : Program {
  torch::nn::Linear fc{8, 4};
  torch::Tensor base;

  Tensors inputs(int shape) override {
    base = torch::randn({shape ? 5 : 3, 8}).requires_grad_();
    return {base * 2};
  }
  Tensors run(const Tensors& in) override {
    in[0].mul_(3);
    return {fc->forward(in[0])};
  }
  Tensors state() override { return {fc->weight, fc->bias, base}; }
  std::string never_served() override { return "it changes the autograd history of a tensor that it was given"; }
};
TENON_PROGRAM(NonLeafInputWritten);

}  // namespace tenon::test
