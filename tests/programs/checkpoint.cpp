// Reentrant checkpointing: the backward runs the block again and differentiates it.
#include "support/program.h"

namespace tenon::test {

struct CheckpointedBlock : torch::autograd::Function<CheckpointedBlock> {
  static torch::Tensor block(const torch::Tensor& x, const torch::Tensor& up, const torch::Tensor& down) {
    return torch::mm(torch::gelu(torch::mm(x, up)), down) + x;
  }
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x, torch::Tensor up, torch::Tensor down) {
    context->save_for_backward({x, up, down});
    return block(x, up, down);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context, torch::autograd::tensor_list gradients) {
    torch::autograd::tensor_list again;
    for (auto& saved : context->get_saved_variables()) again.push_back(saved.detach().requires_grad_());
    torch::AutoGradMode on(true);
    auto y = block(again[0], again[1], again[2]);
    return torch::autograd::grad({y}, again, gradients);
  }
};

struct Checkpoint : Program {
  torch::Tensor up = torch::randn({8, 16}).requires_grad_(), down = torch::randn({16, 8}).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8}).requires_grad_()}; }
  Tensors run(const Tensors& in) override {
    auto h = CheckpointedBlock::apply(in[0], up, down);
    return {CheckpointedBlock::apply(h, up, down).tanh()};
  }
  Tensors state() override { return {up, down}; }
};
TENON_PROGRAM(Checkpoint);

}  // namespace tenon::test
