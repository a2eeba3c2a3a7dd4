// A TorchScript module that was saved and loaded.
#include <torch/script.h>

#include <sstream>

#include "support/program.h"

namespace tenon::test {

struct TorchscriptModule : Program {
  torch::jit::Module net = saved_and_loaded();

  static torch::jit::Module saved_and_loaded() {
    torch::jit::Module m("m");
    m.register_parameter("w", torch::randn({8, 4}).requires_grad_(), false);
    m.define(R"JIT(
      def forward(self, x):
        return torch.relu(torch.mm(x, self.w)) + 1
    )JIT");
    std::stringstream file;
    m.save(file);
    return torch::jit::load(file);
  }
  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override { return {net.forward({in[0]}).toTensor() * 2}; }
  Tensors state() override { return {net.attr("w").toTensor()}; }
};
TENON_PROGRAM(TorchscriptModule);

}  // namespace tenon::test
