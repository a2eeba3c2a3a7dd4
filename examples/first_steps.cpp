#include <tenon/inspect.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::nn::Sequential model(torch::nn::Linear(64, 128), torch::nn::GELU(), torch::nn::Linear(128, 10));
  auto fast = tenon::compile(model, {.name = "mlp"});  // any module or callable; called like before
  for (int i = 0; i < 5; ++i) fast(torch::randn({8, 64}));
  std::cout << tenon::explain(fast);  // what it did, and why
}
