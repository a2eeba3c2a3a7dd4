// dist_tool shares: reads lines "examples batch ranks rank drop_last split_batches even_batches" and prints the batches of each.
// dist_tool train KEY=VALUE...: trains a network with an Accelerator; see Settings. Rank 0 prints the losses, and each rank a digest of its
// weights at the end.
#include <tenon/accelerate.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>
#include <thread>

#include "train/batch_shares.h"

namespace {

using torch::Tensor;

int print_shares() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    size_t examples = 0;
    tenon::train::ShareRules rules;
    in >> examples >> rules.batch_size >> rules.ranks >> rules.rank >> rules.drop_last >> rules.split_batches >> rules.even_batches;
    std::vector<size_t> order(examples);
    std::iota(order.begin(), order.end(), size_t{0});
    std::string out = "[";
    for (const auto& batch : tenon::train::share_of(tenon::train::make_batches(order, rules.batch_size, rules.drop_last), rules)) {
      out += out.size() > 1 ? ",[" : "[";
      for (size_t i = 0; i < batch.size(); ++i) out += (i ? "," : "") + std::to_string(batch[i]);
      out += "]";
    }
    std::puts((out + "]").c_str());
  }
  return 0;
}

class Settings {
 public:
  Settings(int count, char** arguments) {
    for (int i = 0; i < count; ++i) {
      std::string text = arguments[i];
      values_[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
    }
  }
  std::string text(const std::string& name, const std::string& otherwise) const {
    auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  int64_t number(const std::string& name, int64_t otherwise) const { return std::stoll(text(name, std::to_string(otherwise))); }

 private:
  std::map<std::string, std::string> values_;
};

// Examples of random inputs and targets, the same in each process.
struct Examples : tenon::Dataset {
  Examples(Tensor inputs, Tensor targets) : x(std::move(inputs)), y(std::move(targets)) {}
  size_t size() const override { return static_cast<size_t>(x.size(0)); }
  std::vector<Tensor> batch(const std::vector<size_t>& indices) const override {
    Tensor rows = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    return {x.index_select(0, rows), y.index_select(0, rows)};
  }
  Tensor x, y;
};

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    layers = register_module("layers", torch::nn::Sequential(torch::nn::Linear(16, 48), torch::nn::GELU(), torch::nn::Linear(48, 48),
                                                             torch::nn::Tanh(), torch::nn::Linear(48, 4)));
    unused = register_module("unused", torch::nn::Linear(3, 3));  // Never gets a gradient.
  }
  Tensor forward(Tensor x) { return layers->forward(x); }
  torch::nn::Sequential layers;
  torch::nn::Linear unused{nullptr};
};
TORCH_MODULE(Mlp);

struct CnnImpl : torch::nn::Module {
  CnnImpl() {
    one = register_module("one", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 3).padding(1)));
    norm = register_module("norm", torch::nn::GroupNorm(torch::nn::GroupNormOptions(2, 6)));
    two = register_module("two", torch::nn::Linear(6 * 16, 4));
  }
  Tensor forward(Tensor x) { return two->forward(torch::relu(norm->forward(one->forward(x.view({-1, 1, 4, 4})))).flatten(1)); }
  torch::nn::Conv2d one{nullptr};
  torch::nn::GroupNorm norm{nullptr};
  torch::nn::Linear two{nullptr};
};
TORCH_MODULE(Cnn);

struct LstmImpl : torch::nn::Module {
  LstmImpl() {
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(4, 12).batch_first(true)));
    head = register_module("head", torch::nn::Linear(12, 4));
  }
  Tensor forward(Tensor x) { return head->forward(std::get<0>(lstm->forward(x.view({-1, 4, 4}))).select(1, 3)); }
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Lstm);

// One layer of attention and a feed-forward block over four tokens of four numbers.
struct TransformerImpl : torch::nn::Module {
  TransformerImpl() {
    input = register_module("input", torch::nn::Linear(4, 16));
    block = register_module(
        "block", torch::nn::TransformerEncoderLayer(torch::nn::TransformerEncoderLayerOptions(16, 2).dim_feedforward(32).dropout(0.0)));
    head = register_module("head", torch::nn::Linear(16, 4));
  }
  Tensor forward(Tensor x) { return head->forward(block->forward(input->forward(x.view({-1, 4, 4})).transpose(0, 1)).mean(0)); }
  torch::nn::Linear input{nullptr}, head{nullptr};
  torch::nn::TransformerEncoderLayer block{nullptr};
};
TORCH_MODULE(Transformer);

uint64_t digest(const std::vector<Tensor>& tensors) {
  uint64_t hash = 1469598103934665603ull;
  for (const Tensor& tensor : tensors) {
    Tensor all = tensor.detach().contiguous();
    auto bytes = static_cast<const uint8_t*>(all.const_data_ptr());
    for (size_t i = 0; i < all.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211ull;
  }
  return hash;
}

// Trains for `epochs` over the loader and reports.
template <class Model, class Optimizer, class Loader, class Scheduler>
void train(const Settings& settings, tenon::Accelerator& accelerator, Model& model, Optimizer& optimizer, Loader& loader,
           Scheduler& scheduler, const std::vector<Tensor>& parameters) {
  std::string directory = settings.text("checkpoint", "");
  auto eager_step = [&](const Tensor& x, const Tensor& y) {
    Tensor loss = torch::cross_entropy_loss(model(x), y);
    accelerator.backward(loss);
    if (accelerator.sync_gradients()) accelerator.clip_grad_norm(parameters, 1.0);
    optimizer.step();
    scheduler.step();
    optimizer.zero_grad();
    return loss.detach();
  };
  std::function<Tensor(const Tensor&, const Tensor&)> step = eager_step;
  if (settings.number("whole", 0)) step = tenon::compile(eager_step, {.name = "step"});
  int64_t every = settings.number("every", 0), pause = settings.number("pause", 0), batches = 0, steps = 0;
  // A program that differs on one rank: the rank `odd_rank` calls one more collective in the step `odd_step`.
  bool is_odd = settings.number("odd_rank", -1) == accelerator.process_index();
  // `checkpoint` names a directory that need not exist: then the training begins anew.
  if (!directory.empty() && settings.number("resume", 0) && std::filesystem::exists(directory)) accelerator.load_state(directory);
  for (int64_t epoch = loader.epoch(); epoch < settings.number("epochs", 2); ++epoch) {
    for (const auto& batch : loader) {
      accelerator.accumulate();
      if (is_odd && steps++ == settings.number("odd_step", 0)) accelerator.reduce(torch::zeros({3}), "sum");
      Tensor loss = step(batch[0], batch[1]);
      Tensor all = accelerator.reduce(loss, "mean");
      char text[64];
      std::snprintf(text, sizeof text, "loss %.9g", all.item<double>());
      accelerator.print(text);
      if (every && ++batches % every == 0) accelerator.save_state(directory);
      if (pause) std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
  }
}

template <class Net>
int train_network(const Settings& settings) {
  std::string backend = settings.text("backend", "no");
  tenon::Accelerator accelerator({.plugin = {.backend = backend.empty() ? std::nullopt : std::optional(backend)},
                                  .gradient_accumulation_steps = settings.number("accumulate", 1),
                                  .shard_optimizer_state = settings.number("shard", 0) != 0,
                                  .timeout_seconds = static_cast<double>(settings.number("timeout", 60))});
  // Weights differ at first, because those of rank 0 are to be used.
  tenon::set_seed(11, /*device_specific=*/true);
  Net net;
  tenon::set_seed(7);
  auto generator = at::detail::createCPUGenerator(5);
  int64_t examples = settings.number("examples", 64);
  Tensor x = torch::randn({examples, 16}, generator), y = torch::randint(4, {examples}, generator);
  int64_t again = settings.number("again", 0);  // Number of examples that follow once more at the end.
  auto data = std::make_shared<Examples>(torch::cat({x, x.narrow(0, 0, again)}), torch::cat({y, y.narrow(0, 0, again)}));
  tenon::DataLoader plain(data, {.batch_size = settings.number("batch", 4), .shuffle = settings.number("shuffle", 1) != 0});
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(1e-2));
  torch::optim::StepLR schedule(adamw, static_cast<unsigned>(settings.number("lr_every", 6)), /*gamma=*/0.5);
  auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, adamw, plain, schedule);
  train(settings, accelerator, model, optimizer, loader, scheduler, net->parameters());

  size_t state_bytes = 0;
  for (auto& [key, state] : adamw.state()) {
    auto& adam = static_cast<torch::optim::AdamWParamState&>(*state);
    state_bytes += adam.exp_avg().nbytes() + adam.exp_avg_sq().nbytes();
  }
  std::printf("rank %ld digest %016lx state %zu bytes\n", accelerator.process_index(), digest(net->parameters()), state_bytes);
  accelerator.wait_for_everyone();
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  std::string command = count > 1 ? arguments[1] : "";
  try {
    torch::set_num_threads(1);
    if (command == "shares") return print_shares();
    Settings settings(count - 2, arguments + 2);
    std::string net = settings.text("net", "mlp");
    if (command != "train") return std::fprintf(stderr, "dist_tool shares | train KEY=VALUE...\n"), 2;
    if (net == "cnn") return train_network<Cnn>(settings);
    if (net == "lstm") return train_network<Lstm>(settings);
    if (net == "transformer") return train_network<Transformer>(settings);
    return train_network<Mlp>(settings);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "rank %s: %s\n", std::getenv("RANK") ? std::getenv("RANK") : "0", error.what()), 1;
  }
}
