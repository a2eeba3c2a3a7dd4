// One operand is computed on another thread, where nothing is recorded.
#include <thread>

#include "support/program.h"

namespace tenon::test {

struct ThreadInside : Program {
  torch::Tensor w = torch::randn({8, 8}).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    torch::Tensor product;
    std::thread other([&] { product = torch::mm(in[0], w); });
    auto mine = torch::relu(in[0]);
    other.join();
    return {product * mine};
  }
  Tensors state() override { return {w}; }
  std::string never_served() override { return "an op runs on another thread"; }
};
TENON_PROGRAM(ThreadInside);

}  // namespace tenon::test
