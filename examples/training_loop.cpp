// An ordinary training loop: the model and the optimizer's step are compiled, and backward() is called between them. The network learns
// which of eight waves a noisy signal contains.
#include <tenon/inspect.h>
#include <tenon/optimizer.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(64, 128), torch::nn::GELU(), torch::nn::LayerNorm(torch::nn::LayerNormOptions({128})),
                              torch::nn::Linear(128, 8));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  auto forward = tenon::compile(model, {.name = "model"});
  auto step = tenon::compile(optimizer, tenon::StepOptions{.max_grad_norm = 1.0}, {.name = "optimizer"});

  torch::Tensor waves = torch::sin(torch::outer(torch::arange(1, 9), torch::linspace(0, 6.28, 64)));
  for (int i = 0; i <= 300; ++i) {
    torch::Tensor labels = torch::randint(8, {32});
    torch::Tensor signals = waves.index_select(0, labels) + torch::randn({32, 64});
    optimizer.zero_grad();
    torch::Tensor loss = torch::cross_entropy_loss(forward(signals), labels);
    loss.backward();
    torch::Tensor norm = step();  // The norm of the gradients before they were clipped.
    if (i % 100 == 0) std::cout << "step " << i << ": loss " << loss.item<float>() << ", gradient norm " << norm.item<float>() << "\n";
  }
  std::cout << tenon::explain(forward) << tenon::explain(step);
}
