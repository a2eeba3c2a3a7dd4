// A training step that also updates an exponential moving average of the weights.
#include "support/program.h"

namespace tenon::test {

struct EmaTeacher : Program {
  torch::nn::Linear student{8, 4}, teacher{8, 4};
  torch::optim::SGD optimizer{student->parameters(), 0.05};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    torch::Tensor target;
    {
      torch::NoGradGuard off;
      target = torch::softmax(teacher->forward(in[0]), -1);
    }
    optimizer.zero_grad();
    auto loss = -(target * torch::log_softmax(student->forward(in[0]), -1)).sum(-1).mean();
    loss.backward();
    optimizer.step();
    torch::NoGradGuard off;
    teacher->weight.mul_(0.99).add_(student->weight, 0.01);
    teacher->bias.lerp_(student->bias, 0.01);
    return {loss.detach()};
  }
  Tensors state() override { return {student->weight, student->bias, teacher->weight, teacher->bias}; }
};
TENON_PROGRAM(EmaTeacher);

}  // namespace tenon::test
