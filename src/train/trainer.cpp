// The training loop, in the order of Transformers' Trainer: for each optimizer step the batches are fetched and their items counted, the
// mean loss of each batch is differentiated, gradients are clipped, AdamW steps, and then logs, evaluations and checkpoints follow.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/TensorOperators.h>
#include <tenon/detail/autocast.h>
#include <tenon/trainer.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "dist/buckets.h"
#include "dist/process_group.h"
#include "train/accelerator_state.h"
#include "train/arguments.h"
#include "train/batch_shares.h"
#include "train/checkpoint.h"
#include "train/data_order.h"
#include "train/learning_rate.h"
#include "train/log_files.h"
#include "train/optimizer.h"
#include "train/progress_bar.h"
#include "train/signals.h"
#include "train/state_files.h"
#include "train/tensor_file.h"

namespace tenon {

using namespace train;

namespace {

using BatchTensors = std::vector<at::Tensor>;

TensorsByName saved_tensors(const TrainingTask& task) {
  TensorsByName out;
  for (const auto* list : {&task.parameters, &task.buffers})
    for (const NamedTensor& item : *list) out.emplace(item.key(), item.value());
  return out;
}

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kGeneratorFile = "rng_state.safetensors";
constexpr size_t kBucketBytes = size_t{25} << 20;  // The default of PyTorch's DistributedDataParallel.

void set_defaults(TrainingTask& task) {
  if (!task.save)
    task.save = [tensors = saved_tensors(task)](const std::string& directory) { write_tensors(directory, kModelFile, tensors); };
  if (!task.load)
    task.load = [tensors = saved_tensors(task)](const std::string& directory) {
      TensorsByName found = read_tensors(directory, kModelFile);
      for (const auto& [name, tensor] : tensors) copy_tensor(found, name, directory + "/" + kModelFile, tensor);
    };
  if (!task.count_items) task.count_items = [](const BatchTensors&) { return int64_t{1}; };
  if (!task.set_training) task.set_training = [](bool) {};
}

// The name of a process's generator in a checkpoint.
std::string generator_name(int rank) { return rank == 0 ? "cpu" : "cpu_" + std::to_string(rank); }

TensorsByName generator_states(dist::ProcessGroup& group) {
  at::Tensor own = at::detail::getDefaultCPUGenerator().get_state();
  at::Tensor all = at::empty({group.size(), own.numel()}, own.options());
  group.gather(own, all).wait();
  TensorsByName out;
  for (int rank = 0; rank < group.size(); ++rank) out.emplace(generator_name(rank), all[rank]);
  return out;
}

bool is_multiple(int64_t step, int64_t interval) { return interval > 0 && step % interval == 0; }

std::string number_text(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

struct Trainer::Impl {
  Impl(TrainingArguments a, TrainingTask t, std::shared_ptr<const Dataset> train_data, std::shared_ptr<const Dataset> eval_data);

  at::Tensor mean_loss(const BatchTensors& batch, double items) const;
  double evaluate() const;

  std::string find_checkpoint() const;
  LoopPosition start_position() const;
  void resume();
  void save_checkpoint(ProgressBar& bar);
  void update_output() const;

  bool is_main() const { return group->rank() == 0; }
  Batches own_batches(int64_t epoch) const;
  std::vector<BatchTensors> fetch(const Batches& batches, int64_t first_batch) const;
  int64_t agree(const std::vector<BatchTensors>& batches, const SignalScope& signals);
  double train_step(const std::vector<BatchTensors>& batches, int64_t items);
  void log_loss(ProgressBar& bar);
  void log_evaluation(ProgressBar& bar);
  void finish_step(ProgressBar& bar);
  void run(ProgressBar& bar, const SignalScope& signals);

  TrainingArguments arguments;
  TrainingTask task;
  std::shared_ptr<const Dataset> train_dataset, eval_dataset;
  StepPlan plan;
  std::string checkpoint;  // The directory to resume from; empty if there is none.
  std::unique_ptr<TaskOptimizer> optimizer;
  std::shared_ptr<Region> region;
  std::shared_ptr<dist::ProcessGroup> group;  // The processes that train together.
  std::unique_ptr<dist::GradientBuckets> buckets;
  std::vector<at::Tensor> buffers;

  TrainerState state;
  LoopPosition position;
  int64_t saved_step = -1;  // The step of the newest checkpoint that this object has saved.
  std::unique_ptr<LogFile> log_file;
  double gradient_norm = 0, learning_rate = 0;  // Values of the last step.
  double loss_sum = 0;                          // Sum over the steps of this call of train().
  int signal = 0;                               // A signal that one of the processes has received.
};

Trainer::Impl::Impl(TrainingArguments a, TrainingTask t, std::shared_ptr<const Dataset> train_data,
                    std::shared_ptr<const Dataset> eval_data)
    : arguments(std::move(a)), task(std::move(t)), train_dataset(std::move(train_data)), eval_dataset(std::move(eval_data)) {
  check_arguments(arguments);
  if (!task.loss) throw UserError(ErrorCode::config, "the training task has no loss function. Set TrainingTask::loss.");
  if (!train_dataset || train_dataset->size() == 0)
    throw UserError(ErrorCode::config, "the training dataset is empty. Give a dataset with at least one example.");
  group = dist::ProcessGroup::join(dist::read_launch(), arguments.ddp_timeout);
  plan = plan_steps(arguments, train_dataset->size(), group->size());
  optimizer = std::make_unique<TaskOptimizer>(task, arguments);
  detail::check_equal(*group, "the parameters, data or arguments",
                      detail::describe(detail::tensors_by_name(task.parameters)) + std::to_string(train_dataset->size()) + " examples\n" +
                          std::to_string(plan.max_steps) + " steps\n" + std::to_string(arguments.gradient_accumulation_steps) +
                          " batches per step\n" + std::to_string(arguments.seed) + " is the seed\n");
  std::vector<at::Tensor> parameters;
  for (const NamedTensor& parameter : task.parameters) parameters.push_back(parameter.value());
  for (const NamedTensor& buffer : task.buffers) buffers.push_back(buffer.value());
  dist::broadcast_all(*group, parameters);
  dist::broadcast_all(*group, buffers);
  buckets = std::make_unique<dist::GradientBuckets>(parameters, group, kBucketBytes);
  set_defaults(task);
  if (is_compiled(arguments)) {
    auto compiled = compile(task.loss, compile_options(arguments, task.compile_options));
    region = compiled.region();
    task.loss = [compiled](const BatchTensors& batch) { return compiled(batch); };
  }
  state.max_steps = plan.max_steps;
  position = start_position();
  checkpoint = find_checkpoint();
  at::manual_seed(static_cast<uint64_t>(arguments.seed));
}

// The loss of a batch as a part of the mean over `items` items.
at::Tensor Trainer::Impl::mean_loss(const BatchTensors& batch, double items) const {
  at::Tensor loss;
  {
    detail::AutocastScope autocast(arguments.bf16);
    loss = task.loss(batch);
  }
  if (loss.numel() != 1)
    throw UserError(ErrorCode::shape, "the loss function must return one number, not a tensor with " + std::to_string(loss.numel()) +
                                          " elements. Return the mean of the batch.");
  if (items != 1) loss = loss / items;
  return task.penalty ? loss + task.penalty() : loss;
}

double Trainer::Impl::evaluate() const {
  if (!eval_dataset || eval_dataset->size() == 0)
    throw UserError(ErrorCode::config, "there is no evaluation dataset. Give one to the Trainer's constructor.");
  at::NoGradGuard no_grad;
  task.set_training(false);
  draw_loader_seed();
  double sum = 0;
  size_t size = eval_dataset->size();
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  Batches batches = make_batches(order, static_cast<size_t>(arguments.per_device_eval_batch_size), /*drop_last=*/false);
  for (size_t i = static_cast<size_t>(group->rank()); i < batches.size(); i += static_cast<size_t>(group->size())) {
    BatchTensors batch = eval_dataset->batch(batches[i]);
    sum += mean_loss(batch, static_cast<double>(task.count_items(batch))).item<double>() * static_cast<double>(batches[i].size());
  }
  return dist::sum_of(*group, sum) / static_cast<double>(size);
}

std::string Trainer::Impl::find_checkpoint() const {
  const std::string& wanted = arguments.resume_from_checkpoint;
  std::vector<int64_t> steps = checkpoint_steps(arguments.output_dir);
  if (wanted == "last") {
    if (steps.empty())
      throw UserError(ErrorCode::file, arguments.output_dir +
                                           ": there is no checkpoint to resume from. Start without "
                                           "resume_from_checkpoint (command line: without --resume).");
    return checkpoint_path(arguments.output_dir, steps.back());
  }
  if (wanted.empty() && !steps.empty())
    throw UserError(ErrorCode::file, arguments.output_dir + ": there are checkpoints of an earlier training, up to checkpoint-" +
                                         std::to_string(steps.back()) +
                                         ". Set resume_from_checkpoint to \"last\" (command line: --resume) to continue it, or choose "
                                         "another output_dir.");
  return wanted;
}

LoopPosition Trainer::Impl::start_position() const {
  return {.examples = static_cast<int64_t>(train_dataset->size()),
          .batch_size = arguments.per_device_train_batch_size,
          .processes = group->size(),
          .accumulation_steps = arguments.gradient_accumulation_steps,
          .seed = arguments.seed};
}

void Trainer::Impl::resume() {
  state = read_state(checkpoint);
  position = read_position(checkpoint, start_position());
  state.max_steps = plan.max_steps;
  task.load(checkpoint);
  optimizer->set_state(read_tensors(checkpoint, kOptimizerFile), checkpoint + "/" + kOptimizerFile);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  at::Tensor random = generator.get_state();
  copy_tensor(read_tensors(checkpoint, kGeneratorFile), generator_name(group->rank()), checkpoint + "/" + kGeneratorFile, random);
  generator.set_state(random);
}

void Trainer::Impl::save_checkpoint(ProgressBar& bar) {
  if (saved_step == state.global_step) return;
  if (state.best_global_step == state.global_step) state.best_model_checkpoint = checkpoint_path(arguments.output_dir, state.global_step);
  TensorsByName generators = generator_states(*group);
  dist::run_in_main(*group, [&] {
    write_checkpoint(arguments.output_dir, state.global_step, [&](const std::string& directory) {
      task.save(directory);
      write_tensors(directory, kOptimizerFile, optimizer->state());
      write_tensors(directory, kGeneratorFile, generators);
      write_scheduler(directory, arguments, plan, state.global_step);
      write_position(directory, position);
      write_state(directory, state, arguments, plan);
    });
    update_output();
  });
  saved_step = state.global_step;
  bar.print_event("saved " + checkpoint_path(arguments.output_dir, state.global_step));
}

// Brings the other files of the output directory in line with the newest checkpoint.
void Trainer::Impl::update_output() const {
  std::optional<int64_t> best = state.best_model_checkpoint.empty() ? std::nullopt : state.best_global_step;
  remove_old_checkpoints(arguments.output_dir, arguments.save_total_limit, best);
  write_summary(arguments.output_dir, state, arguments, plan);
}

// The batches of this process in an epoch.
Batches Trainer::Impl::own_batches(int64_t epoch) const {
  auto batch_size = static_cast<size_t>(arguments.per_device_train_batch_size);
  Batches all = make_batches(data_order(train_dataset->size(), arguments.seed, epoch), batch_size, /*drop_last=*/false);
  return share_of(all, {.rank = static_cast<size_t>(group->rank()), .ranks = static_cast<size_t>(group->size()), .batch_size = batch_size});
}

// The batches of the optimizer step that begins with this batch of the epoch.
std::vector<BatchTensors> Trainer::Impl::fetch(const Batches& batches, int64_t first_batch) const {
  std::vector<BatchTensors> out;
  int64_t end = std::min(first_batch + arguments.gradient_accumulation_steps, plan.batches_per_epoch);
  for (int64_t batch = first_batch; batch < end; ++batch) out.push_back(train_dataset->batch(batches[static_cast<size_t>(batch)]));
  return out;
}

// Returns the number of items in these batches of all processes. Learns of a signal that another process has received.
int64_t Trainer::Impl::agree(const std::vector<BatchTensors>& batches, const SignalScope& signals) {
  int64_t items = 0;
  for (const BatchTensors& batch : batches) items += task.count_items(batch);
  signal = signals.received();
  if (group->size() == 1) return items;
  auto sums = dist::sums_of(*group, {static_cast<double>(items), signal == SIGINT ? 1.0 : 0.0, signal == SIGTERM ? 1.0 : 0.0});
  signal = sums[2] > 0 ? SIGTERM : sums[1] > 0 ? SIGINT : 0;
  return static_cast<int64_t>(sums[0]);
}

double Trainer::Impl::train_step(const std::vector<BatchTensors>& batches, int64_t items) {
  task.set_training(true);
  double step_loss = 0;
  // Gradients are averaged over the processes, so the loss of each is a part of the mean of its own share.
  double own_items = static_cast<double>(items) / group->size();
  for (const BatchTensors& batch : batches) {
    at::Tensor loss = mean_loss(batch, own_items);
    loss.backward();
    auto value = loss.item<float>();
    if (group->size() == 1) position.unlogged_loss += value;  // Added up in f32, as Transformers does.
    step_loss += value;
  }
  if (group->size() > 1) {
    buckets->average();
    // Averages of batch norm are those of rank 0, as in DistributedDataParallel.
    dist::broadcast_all(*group, buffers);
    step_loss = dist::sum_of(*group, step_loss) / group->size();
    position.unlogged_loss += static_cast<float>(step_loss);
  }
  gradient_norm = optimizer->clip_gradients(arguments.max_grad_norm);
  learning_rate =
      arguments.learning_rate * learning_rate_factor(arguments.lr_scheduler_type, state.global_step, plan.warmup_steps, plan.max_steps);
  optimizer->step(learning_rate);
  optimizer->clear_gradients();
  ++state.global_step;
  return step_loss;
}

void Trainer::Impl::log_loss(ProgressBar& bar) {
  double loss = static_cast<double>(position.unlogged_loss) / static_cast<double>(state.global_step - position.logged_step);
  position.unlogged_loss = 0;
  position.logged_step = state.global_step;
  state.log_history.push_back({{"loss", loss},
                               {"grad_norm", gradient_norm},
                               {"learning_rate", learning_rate},
                               {"epoch", state.epoch},
                               {"step", static_cast<double>(state.global_step)}});
  if (log_file) log_file->append(state.log_history.back());
  bar.print_event("step " + std::to_string(state.global_step) + "/" + std::to_string(plan.max_steps) + ", loss " +
                  number_text("%.4g", loss) + ", learning rate " + number_text("%.3g", learning_rate) + ", " +
                  number_text("%.3g", bar.rate()) + " steps/s, " + bar.time_left() + " left");
  if (!std::isfinite(loss))
    bar.print("the loss is not finite at step " + std::to_string(state.global_step) +
              ". Lower learning_rate, or resume from a checkpoint before it.");
}

void Trainer::Impl::log_evaluation(ProgressBar& bar) {
  double loss = evaluate();
  state.log_history.push_back({{"eval_loss", loss}, {"epoch", state.epoch}, {"step", static_cast<double>(state.global_step)}});
  if (log_file) log_file->append(state.log_history.back());
  if (!state.best_metric || loss < *state.best_metric) {
    state.best_metric = loss;
    state.best_global_step = state.global_step;
    state.best_model_checkpoint.clear();
  }
  bar.print("step " + std::to_string(state.global_step) + "/" + std::to_string(plan.max_steps) + ", evaluation loss " +
            number_text("%.4g", loss));
}

// Logs, evaluates and saves what is due after a step.
void Trainer::Impl::finish_step(ProgressBar& bar) {
  double eval_steps = arguments.eval_steps > 0 ? arguments.eval_steps : arguments.logging_steps;
  auto is_due = [&](double steps) { return is_multiple(state.global_step, whole_steps(steps, plan.max_steps)); };
  bool is_last = state.global_step >= plan.max_steps;
  if (is_due(arguments.logging_steps)) log_loss(bar);
  if (eval_dataset && (is_due(eval_steps) || is_last)) log_evaluation(bar);
  if (is_due(arguments.save_steps) || is_last) save_checkpoint(bar);
}

void Trainer::Impl::run(ProgressBar& bar, const SignalScope& signals) {
  int64_t first_step = state.global_step;
  for (int64_t epoch = first_step / plan.steps_per_epoch; epoch < plan.epochs && state.global_step < plan.max_steps; ++epoch) {
    Batches order = own_batches(epoch);
    int64_t done = state.global_step - epoch * plan.steps_per_epoch;  // Steps of this epoch before the checkpoint.
    if (done == 0) draw_loader_seed();
    for (int64_t batch = done * arguments.gradient_accumulation_steps; batch < plan.batches_per_epoch;) {
      std::vector<BatchTensors> batches = fetch(order, batch);
      int64_t items = agree(batches, signals);
      double loss = train_step(batches, items);
      batch += static_cast<int64_t>(batches.size());
      state.epoch = static_cast<double>(epoch) + static_cast<double>(batch) / static_cast<double>(plan.batches_per_epoch);
      loss_sum += loss;
      bar.update(state.global_step, loss);
      finish_step(bar);
      if (group->size() == 1) signal = signals.received();
      if (signal || state.global_step >= plan.max_steps) return;
    }
  }
}

Trainer::Trainer(TrainingArguments arguments, TrainingTask task, std::shared_ptr<const Dataset> train_dataset,
                 std::shared_ptr<const Dataset> eval_dataset)
    : impl_(std::make_unique<Impl>(std::move(arguments), std::move(task), std::move(train_dataset), std::move(eval_dataset))) {}
Trainer::~Trainer() = default;

TrainOutput Trainer::train() {
  Impl& impl = *impl_;
  auto start = std::chrono::steady_clock::now();
  dist::run_in_main(*impl.group, [&] { prepare_output(impl.arguments.output_dir); });
  if (!impl.checkpoint.empty()) dist::run_everywhere(*impl.group, [&] { impl.resume(); });
  if (impl.is_main()) impl.log_file = std::make_unique<LogFile>(impl.arguments.output_dir, impl.state.log_history);
  int64_t first_step = impl.state.global_step;
  impl.loss_sum = 0;

  SignalScope signals;
  ProgressBar bar(first_step, impl.plan.max_steps, impl.is_main());
  if (!impl.checkpoint.empty()) {
    bar.print("resuming from " + impl.checkpoint);
    dist::run_in_main(*impl.group,
                      [&] { impl.update_output(); });  // The process may have been killed after the checkpoint and before this.
  }
  impl.run(bar, signals);
  impl.task.set_training(false);
  TrainOutput output;
  bool is_complete = impl.state.global_step >= impl.plan.max_steps;
  if (!is_complete) {
    output.signal = impl.signal;
    impl.save_checkpoint(bar);
    bar.print(std::string("interrupted by ") + (output.signal == SIGTERM ? "SIGTERM" : "SIGINT") + "; saved " +
              checkpoint_path(impl.arguments.output_dir, impl.state.global_step) +
              ". To continue, run the same training with resume_from_checkpoint \"last\" (command line: --resume).");
  }
  output.global_step = impl.state.global_step;
  output.training_loss = impl.loss_sum / static_cast<double>(std::max<int64_t>(1, impl.state.global_step - first_step));
  output.train_runtime = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return output;
}

double Trainer::evaluate() { return impl_->evaluate(); }

const TrainerState& Trainer::state() const { return impl_->state; }
bool Trainer::is_world_process_zero() const { return impl_->is_main(); }
std::shared_ptr<Region> Trainer::region() const { return impl_->region; }

}  // namespace tenon
