// Training loops as people write them: zero_grad, forward, loss, backward, step with AdamW. `bench_loop NETWORK FORM` reads numbers of
// steps and prints for each the CPU seconds of the process; bench/loop.py lets several such processes take turns. With BENCH_MEMORY it
// prints the peak memory of a step in MB instead. One thread. Forms:
//   eager   the loop in libtorch
//   loop    compile(model)
//   both    compile(model), compile(optimizer)
//   whole   the whole step as one compiled function
//   pure    the same under Trust::pure, with the optimizer watched
//   budget  compile(model) under Trust::pure with memory_budget 0.5, compile(optimizer)
//   parallel, parallel_eager   an Accelerator, with and without compiling: makes BENCH_STEPS steps and prints their medians as JSON.
//           torchrun starts it several times (bench/data_parallel.py)
#include <ATen/Parallel.h>
#include <tenon/accelerate.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <tenon/optimizer.h>
#include <tenon/trainer.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "bench/counting_allocator.h"
#include "bench/models/bert.h"
#include "bench/models/causal.h"
#include "bench/models/gpt2.h"
#include "bench/models/llama.h"
#include "bench/models/small.h"
#include "bench/timing.h"

using namespace tenon;
using namespace tenon::bench;
using torch::Tensor;

namespace {

// Two convolutions with batch norm on images of 32 x 32.
struct CnnImpl : torch::nn::Module {
  CnnImpl()
      : conv1(torch::nn::Conv2dOptions(3, 32, 3).padding(1)),
        conv2(torch::nn::Conv2dOptions(32, 64, 3).stride(2).padding(1)),
        norm1(32),
        norm2(64),
        out(64, 10) {
    register_module("conv1", conv1), register_module("conv2", conv2), register_module("norm1", norm1);
    register_module("norm2", norm2), register_module("out", out);
  }
  Tensor forward(const Tensor& images) {
    Tensor x = torch::relu(norm2(conv2(torch::relu(norm1(conv1(images))))));
    return out(x.mean({2, 3}));
  }
  torch::nn::Conv2d conv1, conv2;
  torch::nn::BatchNorm2d norm1, norm2;
  torch::nn::Linear out;
};
TORCH_MODULE(Cnn);

struct LstmImpl : torch::nn::Module {
  LstmImpl() : lstm(torch::nn::LSTMOptions(64, 128).batch_first(true)), out(128, 10) {
    register_module("lstm", lstm), register_module("out", out);
  }
  Tensor forward(const Tensor& x) { return out(std::get<0>(lstm(x)).select(1, -1)); }
  torch::nn::LSTM lstm;
  torch::nn::Linear out;
};
TORCH_MODULE(Lstm);

// BERT with a classifier on the first token.
struct BertClassifierImpl : torch::nn::Module {
  BertClassifierImpl() : bert(BertSizes{}), out(BertSizes{}.width, 2) { register_module("bert", bert), register_module("out", out); }
  Tensor forward(const Tensor& ids) { return out(bert(ids).select(1, 0)); }
  Bert bert;
  torch::nn::Linear out;
};
TORCH_MODULE(BertClassifier);

Tensor loss_of(const Tensor& logits, const Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits.reshape({-1, logits.size(-1)}), targets.reshape(-1));
}

bool measures_memory() { return std::getenv("BENCH_MEMORY") != nullptr; }

// Serves requests: reads a number of steps, runs them, prints their time; with BENCH_MEMORY, the peak of what the last of them allocates,
// and the scratch memory that the graphs keep.
template <class Step, class Scratch>
void serve(Step&& step, Scratch&& scratch) {
  for (int steps; std::cin >> steps;) {
    double start = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 1; i < steps; ++i) step();
    size_t peak = 0;
    if (measures_memory()) peak = CountingAllocator::instance().peak_of(step) + scratch();
    else step();
    if (measures_memory()) std::printf("%.3f\n", static_cast<double>(peak) * 1e-6);
    else std::printf("%.6f\n", cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - start);
    std::fflush(stdout);
  }
}

// The block that the graphs share is as large as the largest of their arenas.
size_t arena_of(const Explanation& why) {
  size_t bytes = 0;
  for (const Explanation::Graph& graph : why.graphs) bytes = std::max(bytes, graph.arena_bytes);
  return bytes;
}

double wall_seconds() { return cpu_seconds(CLOCK_MONOTONIC); }

template <class Model>
void run_parallel(Model model, torch::optim::AdamW& adamw, const Tensor& x, const Tensor& y, const std::string& form) {
  constexpr int kWarmup = 4;
  const char* text = std::getenv("BENCH_STEPS");
  int steps = text ? std::atoi(text) : 20;
  Accelerator accelerator({.plugin = {.backend = form == "parallel" ? "native" : "no"}});
  auto [forward, optimizer] = accelerator.prepare(model, adamw);
  std::vector<double> wall, cpu, waited;
  for (int i = -kWarmup; i < steps; ++i) {
    accelerator.wait_for_everyone();
    double wall_start = wall_seconds(), cpu_start = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID), waited_before = accelerator.seconds_waited();
    optimizer.zero_grad();
    accelerator.backward(loss_of(forward(x), y));
    optimizer.step();
    if (i < 0) continue;
    wall.push_back((wall_seconds() - wall_start) * 1e3);
    cpu.push_back((cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start) * 1e3);
    waited.push_back((accelerator.seconds_waited() - waited_before) * 1e3);
  }
  size_t gradient_bytes = 0;
  for (const Tensor& parameter : model->parameters())
    if (parameter.grad().defined()) gradient_bytes += parameter.grad().nbytes();
  char line[200];
  std::snprintf(line, sizeof line, "{\"ranks\": %ld, \"wall_ms\": %.3f, \"cpu_ms\": %.3f, \"waited_ms\": %.3f, \"gradient_bytes\": %zu}",
                static_cast<long>(accelerator.num_processes()), median(wall), median(cpu), median(waited), gradient_bytes);
  accelerator.print(line);
}

template <class Model>
void run(Model model, const Tensor& x, const Tensor& y, const std::string& form) {
  std::vector<Tensor> parameters;
  for (const Tensor& parameter : model->parameters())
    if (parameter.requires_grad()) parameters.push_back(parameter);
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-3));
  auto train = [&](auto&& forward, auto&& update, auto&& scratch) {
    auto step = [&] {
      optimizer.zero_grad();
      loss_of(forward(x), y).backward();
      update();
    };
    serve(step, scratch);
  };
  auto step_eagerly = [&] { optimizer.step(); };
  bool explains = std::getenv("BENCH_EXPLAIN") != nullptr;
  if (form.starts_with("parallel")) return run_parallel(model, optimizer, x, y, form);
  if (form == "eager") return train([&](const Tensor& in) { return model->forward(in); }, step_eagerly, [] { return size_t{0}; });
  if (form == "whole" || form == "pure") {
    Options options{.name = "step"};
    if (form == "pure") {
      options.trust = Trust::pure;
      options.watch = {model, watch(optimizer)};
    }
    auto step = compile(
        [&](const Tensor& in, const Tensor& targets) {
          optimizer.zero_grad();
          Tensor loss = loss_of(model->forward(in), targets);
          loss.backward();
          optimizer.step();
          return loss.detach();
        },
        options);
    serve([&] { step(x, y); }, [&] { return arena_of(explain(step)); });
    if (explains) std::cerr << explain(step);
    return;
  }
  Options options{.name = "model"};
  if (form == "budget") {
    options.trust = Trust::pure;
    options.memory_budget = 0.5;
  }
  auto fast = compile(model, options);
  auto update = compile(optimizer, {.name = "optimizer"});
  auto scratch = [&] { return std::max(arena_of(explain(fast)), arena_of(explain(update))); };
  if (form == "loop") train(fast, step_eagerly, scratch);
  else train(fast, update, scratch);
  if (explains) std::cerr << explain(fast) << explain(update);
}

Tensor ids(int64_t batch, int64_t length, int64_t vocabulary) { return torch::randint(3, vocabulary, {batch, length}); }

void run_llama(at::ScalarType dtype, bool all_linears, const std::string& form) {
  LlamaSizes sizes{.lora_rank = 8, .lora_on_all = all_linears};
  Llama model(sizes);
  model->to(dtype);
  // Each token from those before it, as loss_of takes it.
  Tensor tokens = ids(4, 128, sizes.vocabulary);
  run(model, tokens, tokens.roll(-1, 1), form);
}

// A model of tenon's own with a LoRA in a bank, beside PEFT in Python. Forms `eager` and `both`.
void run_bank(const std::string& form) {
  auto model = make_causal_model(/*layers=*/12, /*width=*/768, /*heads=*/12, /*vocabulary=*/32000);
  Bank bank(model);
  bank.create("default", LoraConfig{.r = 8, .lora_alpha = 16, .target_modules = {"q_proj", "v_proj"}});
  TrainingTask task = causal_task(model, bank, "default");
  task.set_training(true);
  std::vector<Tensor> parameters;
  for (const NamedTensor& parameter : task.parameters)
    if (parameter.value().requires_grad()) parameters.push_back(parameter.value());
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-3));
  Tensor tokens = ids(4, 128, 32000);
  std::vector<Tensor> batch{tokens, tokens.clone(), torch::ones_like(tokens)};
  auto train = [&](auto&& loss, auto&& update, auto&& scratch) {
    auto step = [&] {
      optimizer.zero_grad();
      (loss(batch) / task.count_items(batch)).backward();
      update();
    };
    serve(step, scratch);
  };
  if (form == "eager")
    return train(
        task.loss, [&] { optimizer.step(); }, [] { return size_t{0}; });
  auto fast = compile(task.loss, task.compile_options);
  auto update = compile(optimizer, {.name = "optimizer"});
  train(fast, update, [&] { return std::max(arena_of(explain(fast)), arena_of(explain(update))); });
  if (std::getenv("BENCH_EXPLAIN")) std::cerr << explain(fast) << explain(update);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "bench_loop NETWORK FORM\n"), 2;
  if (measures_memory()) CountingAllocator::install();
  at::set_num_threads(1);
  torch::manual_seed(0);
  std::string network = argv[1], form = argv[2];
  auto targets = [](c10::IntArrayRef sizes, int64_t classes) { return torch::randint(classes, sizes); };
  Gpt2Sizes gpt{.layers = 4, .width = 256, .heads = 8, .vocabulary = 1000, .positions = 64};
  if (network == "mlp") run(Mlp(std::vector<int64_t>{64, 128, 128, 10}), torch::randn({32, 64}), targets({32}, 10), form);
  else if (network == "cnn") run(Cnn(), torch::randn({32, 3, 32, 32}), targets({32}, 10), form);
  else if (network == "lstm") run(Lstm(), torch::randn({32, 16, 64}), targets({32}, 10), form);
  else if (network == "gpt") run(Gpt2(gpt), ids(8, 64, 1000), targets({8, 64}, 1000), form);
  else if (network == "bert") run(BertClassifier(), ids(8, 128, 30000), targets({8}, 2), form);
  else if (network == "llama_qv") run_llama(at::kFloat, /*all_linears=*/false, form);
  else if (network == "llama_all") run_llama(at::kFloat, /*all_linears=*/true, form);
  else if (network == "bank") run_bank(form);
  else if (network == "llama_bf16") run_llama(at::kBFloat16, /*all_linears=*/false, form);
  else return std::fprintf(stderr, "bench_loop: there is no network '%s'\n", argv[1]), 2;
}
