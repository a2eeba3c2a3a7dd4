// Cost of the Trainer: the same training steps through tenon::Trainer and through a loop written by hand, which take turns step by step.
// Both compile the same loss. One thread, CPU time of the process. `bench_trainer [rounds]` prints Trainer / loop, the median of rounds.
#include <ATen/Parallel.h>
#include <tenon/trainer.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "bench/models/causal.h"
#include "bench/models/small.h"
#include "bench/timing.h"
#include "tests/support/folder.h"

using namespace tenon;
using namespace tenon::bench;

namespace {

constexpr int64_t kWarmUpSteps = 50;
constexpr int64_t kRoundSteps = 500;     // The default of logging_steps, so each round has one log entry.
constexpr double kLossTolerance = 1e-3;  // Largest relative difference of the mean losses of Trainer and loop.
constexpr const char* kAdapter = "default";

double now() { return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID); }

// Examples in memory: one tensor for each tensor of a batch.
class TensorExamples : public Dataset {
 public:
  explicit TensorExamples(std::vector<Tensor> columns) : columns_(std::move(columns)) {}
  size_t size() const override { return static_cast<size_t>(columns_[0].size(0)); }
  std::vector<Tensor> batch(const std::vector<size_t>& indices) const override {
    Tensor rows = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    std::vector<Tensor> out;
    for (const Tensor& column : columns_) out.push_back(column.index_select(0, rows));
    return out;
  }

 private:
  std::vector<Tensor> columns_;
};

// A training loop as a user writes it, for one batch per step, a linear schedule and no weight decay, which are the Trainer's defaults.
class LoopByHand {
 public:
  LoopByHand(TrainingTask task, const TrainingArguments& arguments)
      : task_(std::move(task)),
        arguments_(arguments),
        loss_(compile(task_.loss, task_.compile_options)),
        parameters_(trained(task_)),
        optimizer_(parameters_, torch::optim::AdamWOptions(arguments.learning_rate).weight_decay(arguments.weight_decay)) {
    task_.set_training(true);
  }

  void step(const std::vector<Tensor>& batch) {
    Tensor loss = loss_(batch);
    if (task_.count_items) loss = loss / task_.count_items(batch);
    loss.backward();
    loss_sum_ += loss.item<float>();
    torch::nn::utils::clip_grad_norm_(parameters_, arguments_.max_grad_norm);
    double rest = 1 - static_cast<double>(steps_++) / static_cast<double>(arguments_.max_steps);
    for (auto& group : optimizer_.param_groups())
      static_cast<torch::optim::AdamWOptions&>(group.options()).lr(arguments_.learning_rate * rest);
    optimizer_.step();
    optimizer_.zero_grad();
  }
  double mean_loss() const { return loss_sum_ / static_cast<double>(steps_); }

 private:
  static std::vector<Tensor> trained(const TrainingTask& task) {
    std::vector<Tensor> out;
    for (const NamedTensor& parameter : task.parameters)
      if (parameter.value().requires_grad()) out.push_back(parameter.value());
    return out;
  }

  TrainingTask task_;
  TrainingArguments arguments_;
  Compiled<decltype(TrainingTask::loss)> loss_;
  std::vector<Tensor> parameters_;
  torch::optim::AdamW optimizer_;
  double loss_sum_ = 0;
  int64_t steps_ = 0;
};

// The Trainer's dataset. The Trainer fetches one batch per step, at its beginning. The loop does the same step first, with the same
// examples. A step of the Trainer is then all that happens until it fetches the next batch.
class TakingTurns : public Dataset {
 public:
  TakingTurns(std::shared_ptr<const Dataset> data, LoopByHand& loop) : data_(std::move(data)), loop_(loop) {}
  size_t size() const override { return data_->size(); }
  std::vector<Tensor> batch(const std::vector<size_t>& indices) const override {
    double start = now();
    if (!loop_seconds_.empty()) trainer_seconds_.push_back(start - trainer_start_);
    loop_.step(data_->batch(indices));
    loop_seconds_.push_back(now() - start);
    trainer_start_ = now();
    return data_->batch(indices);
  }

  // Seconds of each step; the last step of the Trainer, which saves a checkpoint, is missing.
  const std::vector<double>& loop_seconds() const { return loop_seconds_; }
  const std::vector<double>& trainer_seconds() const { return trainer_seconds_; }

 private:
  std::shared_ptr<const Dataset> data_;
  LoopByHand& loop_;
  mutable double trainer_start_ = 0;
  mutable std::vector<double> loop_seconds_, trainer_seconds_;
};

// The two tasks are equal, with parameters of their own.
void measure(const char* name, TrainingTask for_trainer, TrainingTask for_loop, std::shared_ptr<const Dataset> data, int64_t batch_size,
             int64_t rounds) {
  test::TemporaryFolder folder;
  TrainingArguments arguments{.output_dir = folder.path().string(),
                              .max_steps = kWarmUpSteps + rounds * kRoundSteps + 1,
                              .per_device_train_batch_size = batch_size,
                              .save_steps = 0,
                              .torch_compile = true};
  LoopByHand loop(std::move(for_loop), arguments);
  auto turns = std::make_shared<TakingTurns>(std::move(data), loop);
  TrainOutput output = Trainer(arguments, std::move(for_trainer), turns).train();
  TORCH_CHECK(std::abs(output.training_loss / loop.mean_loss() - 1) < kLossTolerance, name, ": the mean loss of the Trainer is ",
              output.training_loss, ", that of the loop ", loop.mean_loss());

  std::vector<double> by_trainer, by_hand, ratios;
  for (int64_t round = 0; round < rounds; ++round) {
    auto mean = [&](const std::vector<double>& seconds) {
      auto first = seconds.begin() + kWarmUpSteps + round * kRoundSteps;
      return std::accumulate(first, first + kRoundSteps, 0.0) / static_cast<double>(kRoundSteps);
    };
    by_trainer.push_back(mean(turns->trainer_seconds()));
    by_hand.push_back(mean(turns->loop_seconds()));
    ratios.push_back(by_trainer.back() / by_hand.back());
  }
  report(name, median(ratios), "x the loop by hand", median(by_hand), median(by_trainer));
}

TrainingTask small_task(const std::vector<int64_t>& widths) {
  torch::manual_seed(1);
  Mlp network(widths);
  return module_task(network,
                     [network](const std::vector<Tensor>& batch) mutable { return torch::mse_loss(network->forward(batch[0]), batch[1]); });
}

void bench_small_network(int64_t rounds) {
  constexpr int64_t kExamples = 1024, kBatch = 64;
  const std::vector<int64_t> widths{256, 512, 512, 8};
  TrainingTask for_trainer = small_task(widths), for_loop = small_task(widths);
  auto data = std::make_shared<TensorExamples>(
      std::vector<Tensor>{torch::randn({kExamples, widths.front()}), torch::randn({kExamples, widths.back()})});
  measure("trainer small network", std::move(for_trainer), std::move(for_loop), data, kBatch, rounds);
}

// A tiny Llama with a new LoRA. It has no dropout, whose masks would differ between Trainer and loop, and so would their losses.
struct LlamaWithLora {
  static constexpr int64_t kVocabulary = 1024;
  LlamaWithLora() : model(make_causal_model(/*layers=*/4, /*width=*/128, /*heads=*/8, kVocabulary)), bank(model) {
    bank.create(kAdapter, LoraConfig{.r = 8, .lora_alpha = 16, .target_modules = {"q_proj", "v_proj"}});
  }
  TrainingTask task() { return causal_task(model, bank, kAdapter); }

  std::shared_ptr<CausalModel> model;
  Bank bank;
};

void bench_llama(int64_t rounds) {
  constexpr int64_t kExamples = 256, kTokens = 32, kBatch = 4;
  LlamaWithLora for_trainer, for_loop;
  Tensor ids = torch::randint(3, LlamaWithLora::kVocabulary, {kExamples, kTokens});
  // Token ids, labels and attention mask, as load_text makes them.
  auto data = std::make_shared<TensorExamples>(std::vector<Tensor>{ids, ids.clone(), torch::ones_like(ids)});
  measure("trainer llama lora", for_trainer.task(), for_loop.task(), data, kBatch, rounds);
}

}  // namespace

int main(int count, char** arguments) try {
  at::set_num_threads(1);
  int64_t rounds = count > 1 ? std::atoll(arguments[1]) : 7;
  if (rounds < 1) return std::fprintf(stderr, "bench_trainer [rounds]\n"), 2;
  bench_small_network(rounds);
  bench_llama(rounds);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
