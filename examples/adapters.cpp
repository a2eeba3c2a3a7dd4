// One base, three adapters, each row of a batch with its own; one of them is trained on the side: adapters BASE ADAPTER ADAPTER ADAPTER.
// The base is a directory of Hugging Face's, the others are PEFT's.
#include <tenon/adapters.h>
#include <tenon/control.h>
#include <torch/torch.h>

#include <iostream>

int main(int count, char** arguments) try {
  if (count != 5) return std::cerr << "adapters BASE ADAPTER ADAPTER ADAPTER\n", 2;
  auto model = tenon::load_model(arguments[1]);
  tenon::Bank bank(model);
  const std::vector<std::string> names = {"first", "second", "third"};
  for (size_t i = 0; i < names.size(); ++i) bank.load(names[i], arguments[2 + i]);
  auto run = tenon::compile(model);

  // Every row names its adapter; other names compile nothing.
  auto ids = torch::randint(3, 60, {4, 16});
  auto show = [&](const std::vector<std::string>& rows) {
    torch::NoGradGuard no_grad;
    auto logits = run(ids, bank.rows(rows));
    for (size_t i = 0; i < rows.size(); ++i)
      std::cout << rows[i] << " says " << logits[i][-1].argmax().item<int64_t>() << (i + 1 < rows.size() ? ", " : "\n");
  };
  show({tenon::kBase, "first", "second", "third"});
  show({"third", "third", tenon::kBase, "first"});

  // The second learns to repeat what it reads, while the others serve.
  bank.train({"second"});
  std::vector<torch::Tensor> parameters;
  for (const auto& parameter : bank.parameters("second")) parameters.push_back(parameter.value());
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(3e-3));
  for (int step = 0; step < 30; ++step) {
    optimizer.zero_grad();
    auto logits = run(ids, bank.rows({"second", "second", "second", "second"}));
    auto loss = torch::nn::functional::cross_entropy(logits.flatten(0, 1), ids.flatten());
    loss.backward();
    optimizer.step();
    if (step % 10 == 9) std::cout << "step " << step + 1 << ": loss " << loss.item<double>() << "\n";
  }
  bank.train({});
  show({tenon::kBase, "first", "second", "third"});
  bank.save("second", std::string(arguments[3]) + "-trained");
  std::cout << tenon::stats().recorded << " recordings, " << tenon::stats().graphs << " graphs\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
