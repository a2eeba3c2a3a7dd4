// The training loop: equal to a loop by hand, accumulation, evaluation, resuming, compiling, torch::data.
#include <gtest/gtest.h>
#include <tenon/inspect.h>

#include "base/error.h"
#include "support/folder.h"
#include "train/data_order.h"
#include "train/learning_rate.h"
#include "train/tiny.h"

namespace tenon::test {
namespace {

using torch::Tensor;

void expect_same_weights(const torch::nn::Sequential& a, const torch::nn::Sequential& b) {
  auto expected = b->named_parameters();
  for (const auto& item : a->named_parameters()) EXPECT_TRUE(torch::equal(item.value(), expected[item.key()])) << item.key();
}

std::vector<double> losses_of(const TrainerState& state, const char* key = "loss") {
  std::vector<double> out;
  for (const auto& entry : state.log_history)
    if (auto found = entry.find(key); found != entry.end()) out.push_back(found->second);
  return out;
}

TEST(TrainingLoop, EqualsALoopByHand) {
  TemporaryFolder folder;
  LinearExamples data(13);
  torch::nn::Sequential network = tiny_network(), by_hand = tiny_network();
  TrainingArguments arguments{.output_dir = folder.path().string(),
                              .num_train_epochs = 3,
                              .per_device_train_batch_size = 4,
                              .gradient_accumulation_steps = 2,
                              .learning_rate = 1e-2,
                              .warmup_steps = 2,
                              .weight_decay = 0.01,
                              .max_grad_norm = 0.5,
                              .logging_steps = 1,
                              .seed = 7};
  Trainer trainer(arguments, tiny_task(network), std::make_shared<LinearExamples>(13));
  TrainOutput output = trainer.train();
  EXPECT_EQ(output.global_step, 6);
  EXPECT_EQ(output.signal, 0);

  // 13 examples are 4 batches, the last of 1 example; 2 steps per epoch.
  std::vector<Tensor> decayed, others, all = by_hand->parameters();
  for (const auto& item : by_hand->named_parameters())
    (item.key().ends_with("bias") || item.key().starts_with("2.") ? others : decayed).push_back(item.value());
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed);
  groups.emplace_back(others);
  torch::optim::AdamW optimizer(groups, torch::optim::AdamWOptions(1e-2).weight_decay(0));
  static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups()[0].options()).weight_decay(0.01);
  torch::manual_seed(7);
  std::vector<double> losses;
  by_hand->train();
  for (int64_t epoch = 0, step = 0; epoch < 3; ++epoch) {
    std::vector<size_t> order = train::data_order(13, 7, epoch);
    train::draw_loader_seed();
    for (size_t first = 0; first < 13; first += 8, ++step) {
      double factor = train::learning_rate_factor("linear", step, 2, 6);
      for (auto& group : optimizer.param_groups()) static_cast<torch::optim::AdamWOptions&>(group.options()).lr(1e-2 * factor);
      optimizer.zero_grad();
      float sum = 0;
      for (size_t begin = first; begin < std::min<size_t>(first + 8, 13); begin += 4) {
        auto batch = data.batch({order.begin() + begin, order.begin() + std::min<size_t>(begin + 4, 13)});
        Tensor loss = torch::mse_loss(by_hand->forward(batch[0]), batch[1]) / 2;
        loss.backward();
        sum += loss.item<float>();
      }
      torch::nn::utils::clip_grad_norm_(all, 0.5);
      optimizer.step();
      losses.push_back(sum);
    }
  }
  expect_same_weights(network, by_hand);
  EXPECT_EQ(losses_of(trainer.state()), losses);
  EXPECT_EQ(trainer.state().log_history[0].at("learning_rate"), 0);
  EXPECT_EQ(trainer.state().log_history[3].at("epoch"), 2);
  EXPECT_FALSE(network->is_training());
}

TEST(TrainingLoop, ItemsAreAveragedOverAllBatchesOfAStep) {
  TemporaryFolder folder;
  torch::nn::Sequential network = tiny_network();
  TrainingTask task = tiny_task(network);
  task.loss = [network](const std::vector<Tensor>& batch) mutable {
    return torch::mse_loss(network->forward(batch[0]), batch[1], at::Reduction::Sum);
  };
  task.count_items = [](const std::vector<Tensor>& batch) { return batch[1].numel(); };
  network->eval();
  LinearExamples data(5);
  double expected = torch::mse_loss(network->forward(data.x), data.y).item<double>();
  task.set_training = [](bool) {};  // Without dropout the loss of the first step is known.
  Trainer trainer({.output_dir = folder.path().string(),
                   .max_steps = 1,
                   .per_device_train_batch_size = 2,
                   .gradient_accumulation_steps = 3,
                   .logging_steps = 1},
                  task, std::make_shared<LinearExamples>(5));
  trainer.train();
  EXPECT_NEAR(losses_of(trainer.state()).at(0), expected, 1e-5);
}

TEST(TrainingLoop, EvaluatesAndRemembersTheBest) {
  TemporaryFolder folder;
  TrainingArguments arguments{.output_dir = folder.path().string(),
                              .max_steps = 10,
                              .per_device_eval_batch_size = 3,
                              .learning_rate = 1e-2,
                              .logging_steps = 5,
                              .eval_steps = 4,
                              .save_steps = 4,
                              .save_total_limit = 1};
  torch::nn::Sequential network = tiny_network();
  Trainer trainer(arguments, tiny_task(network), std::make_shared<LinearExamples>(40), std::make_shared<LinearExamples>(7));
  trainer.train();
  std::vector<double> losses = losses_of(trainer.state(), "eval_loss");
  ASSERT_EQ(losses.size(), 3u);  // After steps 4, 8 and 10.
  EXPECT_EQ(*trainer.state().best_metric, *std::min_element(losses.begin(), losses.end()));
  EXPECT_TRUE(std::filesystem::exists(trainer.state().best_model_checkpoint));
  LinearExamples data(7);
  network->eval();
  EXPECT_NEAR(losses.back(), torch::mse_loss(network->forward(data.x), data.y).item<double>(), 1e-5);
  EXPECT_NEAR(trainer.evaluate(), losses.back(), 1e-6);
}

TEST(TrainingLoop, ResumesBitByBit) {
  TemporaryFolder whole;
  TrainingArguments arguments{.output_dir = whole.path().string(),
                              .num_train_epochs = 2,
                              .per_device_train_batch_size = 3,
                              .gradient_accumulation_steps = 2,
                              .learning_rate = 1e-2,
                              .logging_steps = 4,
                              .save_steps = 3};
  auto data = std::make_shared<LinearExamples>(32);
  torch::nn::Sequential undisturbed = tiny_network();
  Trainer(arguments, tiny_task(undisturbed), data).train();

  // 11 batches are 6 steps. The training ends with an exception: in step 8, after a checkpoint at the end of the first epoch, and in the
  // second batch of step 10, after a checkpoint in the middle of the second epoch.
  for (int last_call : {14, 19}) {
    TemporaryFolder parts;
    arguments.output_dir = parts.path().string();
    arguments.resume_from_checkpoint = "";
    TrainingTask task = tiny_task(tiny_network());
    int calls = 0;
    task.loss = [&, loss = task.loss](const std::vector<Tensor>& batch) {
      if (++calls == last_call) throw std::logic_error("stop");
      return loss(batch);
    };
    EXPECT_THROW(Trainer(arguments, task, data).train(), std::logic_error);
    EXPECT_THROW(Trainer(arguments, tiny_task(tiny_network()), data).train(), UserError);  // There are checkpoints.
    arguments.resume_from_checkpoint = "last";
    for (int again = 0; again < 2; ++again) {  // The second time nothing is left to do.
      torch::nn::Sequential resumed = tiny_network();
      EXPECT_EQ(Trainer(arguments, tiny_task(resumed), data).train().global_step, 12);
      expect_same_weights(resumed, undisturbed);
      EXPECT_EQ(contents_of(parts.path()), contents_of(whole.path()));
    }
  }
}

TEST(TrainingLoop, ResumingNeedsTheSameData) {
  TemporaryFolder folder;
  TrainingArguments arguments{.output_dir = folder.path().string(), .max_steps = 4, .save_steps = 2};
  Trainer(arguments, tiny_task(tiny_network()), std::make_shared<LinearExamples>(32)).train();
  arguments.resume_from_checkpoint = (folder.path() / "checkpoint-2").string();
  auto resume = [&](int64_t examples, TrainingTask task) { Trainer(arguments, task, std::make_shared<LinearExamples>(examples)).train(); };
  auto text_of = [&](auto&& f) -> std::string {
    try {
      f();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(text_of([&] { resume(31, tiny_task(tiny_network())); }).find("\"examples\" is 32"), std::string::npos);
  torch::nn::Sequential wider(torch::nn::Linear(4, 32), torch::nn::Dropout(0.1), torch::nn::Linear(32, 1));
  EXPECT_NE(text_of([&] { resume(32, tiny_task(wider)); }).find("the tensor \"0.bias\" is Float of shape [64]"), std::string::npos);
  EXPECT_EQ(text_of([&] { resume(32, tiny_task(tiny_network())); }), "no error");
}

TEST(TrainingLoop, CompilesTheLoss) {
  TemporaryFolder eager_folder, folder;
  torch::nn::Sequential network = tiny_network(), eager_network = tiny_network();
  TrainingArguments arguments{.output_dir = eager_folder.path().string(), .max_steps = 20, .learning_rate = 1e-2, .logging_steps = 1};
  auto data = std::make_shared<LinearExamples>(160);
  Trainer eager(arguments, tiny_task(eager_network), data);
  EXPECT_EQ(eager.region(), nullptr);
  eager.train();
  arguments.output_dir = folder.path().string();
  arguments.torch_compile_backend = "aot_eager";
  Trainer trainer(arguments, tiny_task(network), data);
  trainer.train();
  EXPECT_EQ(losses_of(trainer.state()), losses_of(eager.state()));
  ASSERT_NE(trainer.region(), nullptr);
  Explanation why = explain(*trainer.region());
  EXPECT_GT(why.answered + why.replayed, 10u) << why;
}

TEST(TrainingLoop, TakesDatasetsOfTorch) {
  struct Pairs : torch::data::datasets::Dataset<Pairs> {
    torch::data::Example<> get(size_t index) override {
      return {torch::full({4}, static_cast<double>(index)), torch::full({1}, static_cast<double>(index))};
    }
    std::optional<size_t> size() const override { return 10; }
  };
  auto data = make_dataset(Pairs().map(torch::data::transforms::Stack<>()));
  EXPECT_EQ(data->size(), 10u);
  std::vector<Tensor> batch = data->batch({3, 5});
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0].sizes(), torch::IntArrayRef({2, 4}));
  EXPECT_TRUE(torch::equal(batch[1], torch::tensor({{3.0f}, {5.0f}})));
}

TEST(TrainingLoop, NothingToTrainIsRefused) {
  TrainingTask task = tiny_task(tiny_network());
  auto data = std::make_shared<LinearExamples>(4);
  EXPECT_THROW(Trainer({}, task, std::make_shared<LinearExamples>(0)), UserError);
  EXPECT_THROW(Trainer({}, task, data).evaluate(), UserError);
  for (const NamedTensor& parameter : task.parameters) parameter.value().set_requires_grad(false);
  EXPECT_THROW(Trainer({}, task, data), UserError);
  EXPECT_THROW(Trainer({}, TrainingTask(), data), UserError);
}

}  // namespace
}  // namespace tenon::test
