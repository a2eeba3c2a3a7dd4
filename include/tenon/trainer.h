// Training with Hugging Face's arguments, logs and checkpoints: of an adapter of a causal model, of a torch::nn module, or of any
// parameters with a loss function.
//
//   auto model = tenon::load_causal_model("llama/");
//   tenon::Bank bank(model);
//   bank.create("default", tenon::LoraConfig{.r = 16, .target_modules = {"q_proj", "v_proj"}});
//   auto data = tenon::load_text("train.jsonl", tenon::Tokenizer::load("llama/"), tenon::text_options(*model));
//   tenon::Trainer trainer({.output_dir = "out"}, tenon::causal_task(model, bank, "default"), data);
//   trainer.train();
//   bank.save("default", "out");
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenon/adapters.h>
#include <tenon/causal.h>
#include <tenon/compile.h>
#include <tenon/data_loader.h>

namespace tenon {

// The fields have the names, meanings and defaults of Transformers' TrainingArguments.
struct TrainingArguments {
  // Receives checkpoints, logs and the loss curve; created if it does not exist.
  std::string output_dir = "trainer_output";
  double num_train_epochs = 3;
  // Number of optimizer steps. Replaces num_train_epochs if it is positive.
  int64_t max_steps = -1;
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  // Number of batches whose gradients are added up before each optimizer step.
  int64_t gradient_accumulation_steps = 1;

  double learning_rate = 5e-5;
  // One of linear, cosine, constant, constant_with_warmup.
  std::string lr_scheduler_type = "linear";
  // Steps in which the learning rate rises from 0: a number of steps or, below 1, a fraction of all steps. If it is 0, warmup_ratio is
  // the fraction.
  double warmup_steps = 0;
  double warmup_ratio = 0;
  // Not applied to biases and norms.
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  // Largest norm of all gradients together; 0 does not clip them.
  double max_grad_norm = 1;
  // Computes the loss under bf16 autocast.
  bool bf16 = false;

  // Numbers of steps between two log entries, evaluations and checkpoints; below 1 they are fractions of all steps, and 0 means never.
  // If eval_steps is 0, logging_steps is used. There is always an evaluation and a checkpoint at the end.
  double logging_steps = 500;
  double eval_steps = 0;
  double save_steps = 500;
  // Number of checkpoints to keep, the oldest are deleted; 0 keeps all. The newest and the best one are always kept.
  int64_t save_total_limit = 0;

  // Seed of the data order and of the default generator, which Trainer's constructor seeds.
  int64_t seed = 42;
  // Under torchrun: seconds after which a process that gives no sign of life counts as hung.
  double ddp_timeout = 1800;
  // Compiles the loss function with tenon::compile. A backend or mode switches it on too.
  bool torch_compile = false;
  // Options::backend. The default is native.
  std::string torch_compile_backend;
  // One of default, reduce-overhead, max-autotune.
  std::string torch_compile_mode;
  // A checkpoint directory to continue from, or "last" for the newest one in output_dir. In JSON, true means "last".
  std::string resume_from_checkpoint;
};

// Reads arguments from a JSON object. Fields that it does not have keep their values in `defaults`. Throws UserError(config) for a value
// of the wrong type or out of range, and for an unknown field, with the name of the nearest known one. `source` names the text in errors.
TENON_API TrainingArguments read_training_arguments(const std::string& json, const std::string& source = "training arguments",
                                                    TrainingArguments defaults = {});

// What a Trainer trains: a loss function and parameters. causal_task and module_task make the usual ones.
struct TrainingTask {
  // Returns the loss of a batch: its mean, or its sum if `count_items` is set. Must call nothing that changes the parameters.
  std::function<at::Tensor(const std::vector<at::Tensor>& batch)> loss;
  // Returns the number of items, for example tokens, whose losses `loss` adds up. The loss of an optimizer step is then the mean over
  // the items of all its batches; without it, the mean of the losses of its batches.
  std::function<int64_t(const std::vector<at::Tensor>& batch)> count_items;
  // A term that is added to the mean loss of each batch, if it is set.
  std::function<at::Tensor()> penalty;

  // Parameters that require gradients are trained. Buffers and all other parameters are only saved.
  std::vector<NamedTensor> parameters, buffers;
  // Names of parameters that weight decay does not apply to, besides biases and norms, which are recognised by their names.
  std::vector<std::string> without_decay;
  // Switches between training mode and evaluation mode, if it is set.
  std::function<void(bool training)> set_training;

  // Write the weights to a directory and read them back. If they are not set, parameters and buffers are saved as model.safetensors.
  std::function<void(const std::string&directory)> save, load;
  // Options of the compiled loss function, for its trust and what it watches. Backend and mode are those of TrainingArguments.
  Options compile_options = {.name = "loss"};
};

// Trains an adapter of a causal model on batches of token ids, labels and attention mask, as load_text makes them. Makes the adapter
// the one that the bank trains and uses. Padding must be on the right. Checkpoints are PEFT directories. The bank must outlive the task.
TENON_API TrainingTask causal_task(std::shared_ptr<CausalModel> model, Bank& bank, const std::string& adapter);

// Trains a module with a function that returns the mean loss of a batch.
TENON_API TrainingTask module_task(std::shared_ptr<torch::nn::Module> module,
                                   std::function<at::Tensor(const std::vector<at::Tensor>& batch)> loss);
template <class H>
requires requires(H& holder) {
  holder.ptr();
  holder.is_empty();
}
TrainingTask module_task(H holder, std::function<at::Tensor(const std::vector<at::Tensor>& batch)> loss) {
  return module_task(holder.is_empty() ? nullptr : std::shared_ptr<torch::nn::Module>(holder.ptr()), std::move(loss));
}

// The state of a training, with the names of Transformers' trainer_state.json.
struct TrainerState {
  int64_t global_step = 0, max_steps = 0;
  double epoch = 0;
  std::vector<std::map<std::string, double>> log_history;
  // The lowest eval_loss, its step, and the checkpoint of that step if there is one.
  std::optional<double> best_metric;
  std::optional<int64_t> best_global_step;
  std::string best_model_checkpoint;
};

struct TrainOutput {
  int64_t global_step = 0;
  // Mean loss over the steps of this call, and its duration.
  double training_loss = 0, train_runtime = 0;
  // SIGINT or SIGTERM if that signal ended the training early, otherwise 0. A checkpoint was saved.
  int signal = 0;
};

// The training loop. For equal seeds the data order and the random numbers are those of Transformers' Trainer. Processes that torchrun
// starts train together: each gets its share of the batches, and gradients are averaged. All of them construct a Trainer with the same
// arguments and call the same functions.
class TENON_API Trainer {
 public:
  // Seeds the default generator. Throws UserError(config) for arguments that make no sense, and if there is nothing to train. Throws
  // UserError(file) if there is no checkpoint to resume from, and if output_dir has checkpoints but resume_from_checkpoint is not set.
  Trainer(TrainingArguments arguments, TrainingTask task, std::shared_ptr<const Dataset> train_dataset,
          std::shared_ptr<const Dataset> eval_dataset = nullptr);
  ~Trainer();

  // Trains to the end, or until SIGINT or SIGTERM, after which the current step is finished and a checkpoint is saved; a second SIGINT
  // ends the process at once. Leaves the model in evaluation mode. Shows progress on stderr. Writes checkpoint-*, trainer_state.json,
  // log_history.jsonl and loss.svg to output_dir. A run that resumes gives the same bytes as one that was not interrupted. Throws
  // UserError(file) if a file cannot be written.
  TrainOutput train();
  // Returns the mean loss over the evaluation dataset. Throws UserError(config) if there is none.
  double evaluate();

  const TrainerState& state() const;
  // Whether this process writes files and prints. Under torchrun that is rank 0, otherwise each.
  bool is_world_process_zero() const;
  // The compiled loss function, for explain(); null if it is not compiled.
  std::shared_ptr<Region> region() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
