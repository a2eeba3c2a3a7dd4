// A tree of torch::nn modules with a bank: adapters_tree WEIGHTS INPUTS ADAPTER_1 ADAPTER_2 OUT BACKEND. tests/adapters/test_trees.py
// compares it with the same tree in Python with PEFT.
#include <tenon/adapters.h>
#include <tenon/control.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>

#include "adapters/net.h"
#include "adapters/tensors.h"
#include "base/error.h"

using namespace tenon;

int main(int count, char** arguments) try {
  if (count != 7) return std::fprintf(stderr, "adapters_tree WEIGHTS INPUTS ADAPTER_1 ADAPTER_2 OUT BACKEND\n"), 2;
  std::string out = arguments[5];
  std::filesystem::create_directories(out);
  Net net;
  net->set_weights(read_tensors(arguments[1]));
  at::Tensor input = read_tensors(arguments[2]).at("input");
  Options options{.backend = arguments[6], .fullgraph = true};
  // A function that was compiled before the bank exists must notice when the bank is made and when it is destroyed.
  auto early = compile(net, {.backend = arguments[6], .trust = Trust::pure});
  auto call_early = [&] {
    torch::NoGradGuard no_grad;
    at::Tensor out;
    for (int i = 0; i < 4; ++i) out = early(input).clone();
    return out;
  };
  call_early();
  auto owned = std::make_unique<Bank>(net);
  Bank& bank = *owned;
  auto plain = compile(net, options);
  auto rowed = compile(
      [&](const at::Tensor& ids, const Rows& rows) {
        auto scope = bank.scope(rows);
        return net->forward(ids);
      },
      options);
  std::map<std::string, at::Tensor> outputs;
  const std::vector<std::string> both = {"adapter_1", "adapter_2"}, mixed = {kBase, "adapter_1", "adapter_2", "adapter_1"};
  for (size_t i = 0; i < both.size(); ++i) bank.load(both[i], arguments[3 + i]);
  size_t recorded = 0, graphs = 0;
  {
    torch::NoGradGuard no_grad;
    for (int round = 0; round < 6; ++round) {
      if (round == 5) recorded = stats().recorded, graphs = stats().graphs;
      bank.use(std::vector<std::string>());
      outputs["out.base"] = plain(input).clone();
      for (const std::string& name : both) {
        bank.use(name);
        outputs["out." + name] = plain(input).clone();
      }
      {
        auto off = bank.disable();
        outputs["out.disabled"] = plain(input).clone();
      }
      outputs["out.mixed"] = rowed(input, bank.rows(mixed)).clone();
      bank.use("adapter_1");
      bank.merge({"adapter_1"});
      outputs["out.merged_1"] = plain(input).clone();
      bank.unmerge();
    }
    std::printf("recorded %zu graphs %zu\n", stats().recorded - recorded, stats().graphs - graphs);
  }
  bank.use("adapter_1");
  outputs["out.early_1"] = call_early();
  // Parameters of torch::nn require gradients by default. Methods that need a frozen base throw an error; train() freezes it by default.
  bank.train(both, {.freeze_base = false});
  try {
    auto scope = bank.scope(bank.rows(mixed));
    net->forward(input);
  } catch (const UserError& error) {
    std::printf("%s\n", error.what());
  }
  bank.train(both);
  for (const auto& parameter : net->named_parameters())
    if (parameter.value().requires_grad()) std::printf("%s still requires grad\n", parameter.key().c_str());
  for (int round = 0; round < 4; ++round) {
    for (const std::string& name : both)
      for (const NamedTensor& parameter : bank.parameters(name)) parameter.value().mutable_grad() = at::Tensor();
    (rowed(input, bank.rows(mixed)).pow(2).sum() / 1000).backward();
  }
  for (const std::string& name : both)
    for (const NamedTensor& parameter : bank.parameters(name))
      outputs["mixed_grad." + name + "." + parameter.key()] = parameter.value().grad().contiguous().clone();
  owned.reset();
  outputs["out.early"] = call_early();
  write_tensors(outputs, out, "outputs.safetensors");
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
