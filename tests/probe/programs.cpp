// Three programs that do not use Tenon. The probe is preloaded with LD_PRELOAD.
#include <torch/script.h>
#include <torch/torch.h>

#include <iostream>
#include <string>

namespace {

void inference() {
  torch::NoGradGuard off;
  torch::nn::Sequential net(torch::nn::Linear(256, 1024), torch::nn::GELU(), torch::nn::LayerNorm(torch::nn::LayerNormOptions({1024})),
                            torch::nn::Linear(1024, 256));
  for (int i = 0; i < 50; ++i) {
    auto y = torch::tanh(net->forward(torch::randn({64, 256})) * 2 + 1).sigmoid();
    if (y.sum().item<float>() < 0) std::cout << "never\n";
  }
}

void torchscript() {
  auto module = torch::jit::compile("def f(x, w):\n  y = x @ w\n  return torch.relu(y * 2 + 1) - y\n");
  auto x = torch::randn({64, 256}), w = torch::randn({256, 256});
  for (int i = 0; i < 50; ++i) module->run_method("f", x, w);
}

void training() {
  torch::nn::Linear fc(128, 256), head(256, 10);
  auto parameters = fc->parameters();
  for (auto& p : head->parameters()) parameters.push_back(p);
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-3));
  for (int i = 0; i < 30; ++i) {
    optimizer.zero_grad();
    auto loss = torch::mse_loss(head(torch::gelu(fc(torch::randn({32, 128})))), torch::zeros({32, 10}));
    loss.backward();
    optimizer.step();
    if (i % 10 == 0) std::cout << loss.item<float>() << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(1);
  std::string what = argc > 1 ? argv[1] : "";
  if (what == "inference") inference();
  else if (what == "torchscript") torchscript();
  else training();
}
