// Training with an Accelerator: the model and the optimizer are compiled, and the same program runs alone or in several processes:
//   ./accelerate
//   torchrun --standalone --no-python --nproc-per-node 2 ./accelerate
#include <tenon/accelerate.h>
#include <torch/torch.h>

#include <cstdio>

// Points of two classes, inside and outside of a circle.
struct Points : tenon::Dataset {
  size_t size() const override { return static_cast<size_t>(positions.size(0)); }
  std::vector<torch::Tensor> batch(const std::vector<size_t>& indices) const override {
    auto chosen = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    return {positions.index_select(0, chosen), classes.index_select(0, chosen)};
  }
  torch::Tensor positions = torch::rand({512, 2}) * 2 - 1;
  torch::Tensor classes = (positions.square().sum(1) < 0.64).to(torch::kLong);
};

int main() {
  tenon::CompilePlugin plugin{.backend = "native", .mode = "default", .fullgraph = true};
  tenon::Accelerator accelerator({.plugin = plugin, .gradient_accumulation_steps = 2});
  tenon::set_seed(0);

  torch::nn::Sequential net(torch::nn::Linear(2, 64), torch::nn::ReLU(), torch::nn::Linear(64, 2));
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(1e-2));
  torch::optim::StepLR schedule(adamw, /*step_size=*/50, /*gamma=*/0.5);
  tenon::DataLoader data(std::make_shared<Points>(), {.batch_size = 16, .shuffle = true});
  auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, adamw, data, schedule);

  for (int epoch = 0; epoch < 10; ++epoch) {
    for (const auto& batch : loader) {
      accelerator.accumulate();
      auto loss = torch::cross_entropy_loss(model(batch[0]), batch[1]);
      accelerator.backward(loss);
      if (accelerator.sync_gradients()) accelerator.clip_grad_norm(net->parameters(), 1.0);
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
    }
  }

  torch::NoGradGuard no_grad;
  int64_t right = 0, total = 0;
  for (const auto& batch : loader) {
    auto predicted = accelerator.gather_for_metrics(model(batch[0]).argmax(1));
    auto expected = accelerator.gather_for_metrics(batch[1]);
    right += (predicted == expected).sum().item<int64_t>();
    total += expected.size(0);
  }
  accelerator.print(std::to_string(accelerator.num_processes()) + " processes: " + std::to_string(right) + " of " + std::to_string(total) +
                    " points");
}
