// train_loop OUTPUT MILLISECONDS [resume]: a training of 40 steps that takes at least so long per step, for tests that kill it. Prints
// "ready" when the training begins. Ends with the exit codes of the program `tenon`.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "train/tiny.h"

int main(int count, char** arguments) {
  using namespace tenon;
  if (count < 3) return std::fprintf(stderr, "train_loop OUTPUT MILLISECONDS [resume]\n"), 2;
  try {
    torch::set_num_threads(1);
    TrainingTask task = test::tiny_task(test::tiny_network());
    auto pause = std::chrono::milliseconds(std::stoi(arguments[2]));
    task.loss = [loss = task.loss, pause](const std::vector<torch::Tensor>& batch) {
      std::this_thread::sleep_for(pause);
      return loss(batch);
    };
    TrainingArguments options{.output_dir = arguments[1],
                              .max_steps = 40,
                              .per_device_train_batch_size = 4,
                              .gradient_accumulation_steps = 2,
                              .learning_rate = 1e-2,
                              .logging_steps = 4,
                              .eval_steps = 10,
                              .save_steps = 3,
                              .save_total_limit = 2};
    if (count > 3) options.resume_from_checkpoint = "last";
    auto data = std::make_shared<test::LinearExamples>(50), evaluation = std::make_shared<test::LinearExamples>(10);
    Trainer trainer(options, task, data, evaluation);
    std::puts("ready");
    std::fflush(stdout);
    TrainOutput output = trainer.train();
    return output.signal ? 128 + output.signal : 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}
