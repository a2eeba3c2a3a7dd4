// A module, compiled: called like before, and telling what it did.
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(64, 128), torch::nn::ReLU(), torch::nn::Linear(128, 10));
  auto fast = tenon::compile(model, {.fullgraph = true, .name = "mlp"});
  for (int i = 0; i < 5; ++i) {
    auto x = torch::randn({8, 64});
    auto loss = fast(x).pow(2).mean();
    loss.backward();
    auto difference = (fast(x) - model->forward(x)).abs().max().item<float>();
    std::cout << "loss " << loss.item<float>() << ", largest difference to eager " << difference << "\n";
  }
  std::cout << tenon::explain(fast);
  std::cout << tenon::explain(fast).graphs.at(0).text;
}
