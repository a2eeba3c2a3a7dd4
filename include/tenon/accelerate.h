// Training on one or several processes with compiled models, in the manner of Hugging Face's Accelerate. A program that runs alone and one
// that torchrun starts several times are the same program.
//
//   tenon::Accelerator accelerator({.plugin = {.backend = "native"}, .gradient_accumulation_steps = 4});
//   auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, adamw, data, schedule);
//   for (const auto& batch : loader) {
//     accelerator.accumulate();
//     auto loss = torch::mse_loss(model(batch[0]), batch[1]);
//     accelerator.backward(loss);
//     if (accelerator.sync_gradients()) accelerator.clip_grad_norm(net->parameters(), 1.0);
//     optimizer.step();
//     scheduler.step();
//     optimizer.zero_grad();
//   }
//
//   torchrun --standalone --no-python --nproc-per-node 2 ./program
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tenon/compile.h>
#include <tenon/data_loader.h>
#include <tenon/detail/prepared.h>
#include <tenon/models.h>

namespace tenon {

// How prepared models and optimizers are compiled: Accelerate's TorchDynamoPlugin. A field that is not set is read from an environment
// variable, ACCELERATE_DYNAMO_BACKEND and so on (docs/reference/environment.md), and else has the default.
struct CompilePlugin {
  // "no" (the default) compiles nothing. Otherwise Options::backend; "inductor" and "tenon" mean native, and case does not matter.
  std::optional<std::string> backend = {};
  // default, reduce-overhead or max-autotune.
  std::optional<std::string> mode = {};
  std::optional<bool> fullgraph = {};
  // true and false are Dynamic::yes and no. The default is Dynamic::automatic.
  std::optional<bool> dynamic = {};
  // Has no effect, because repeated blocks share their kernels anyway and the whole model is compiled in a fraction of a second.
  std::optional<bool> use_regional_compilation = {};
};

struct AcceleratorOptions {
  CompilePlugin plugin = {};
  // "no" or "bf16". The default is ACCELERATE_MIXED_PRECISION, and else "no".
  std::optional<std::string> mixed_precision = {};
  // Number of batches whose gradients are averaged before each optimizer step. ACCELERATE_GRADIENT_ACCUMULATION_STEPS replaces it.
  int64_t gradient_accumulation_steps = 1;
  // Whether the batch size of loaders is that of all processes together.
  bool split_batches = false;
  // Whether all processes get equally many batches of equal size. What is missing at the end of the data is taken from its beginning.
  // Without it a process may get one batch more than another, so the loop must not communicate.
  bool even_batches = true;
  // Whether a prepared scheduler steps only where its optimizer does, once for each process.
  bool step_scheduler_with_optimizer = true;
  // Divides the optimizer's state over the processes (ZeRO stage 1).
  bool shard_optimizer_state = false;
  // Size of the largest collective that averages gradients.
  int64_t bucket_megabytes = 25;
  // A process that gives no sign of life for this time counts as hung. It is also the longest time that the others may let a process
  // wait, for example because they compile or write a checkpoint. At least 2.
  double timeout_seconds = 1800;
};

// One thread uses an Accelerator and what it has prepared. Functions that communicate must be called by all processes in the same order;
// if another process has ended or hangs, they throw UserError(distributed) that names it.
class TENON_API Accelerator {
 public:
  // Joins the job that the environment describes (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), if it does. Throws UserError(config) for
  // values that make no sense, and UserError(distributed) if the job cannot be joined.
  explicit Accelerator(AcceleratorOptions options = {});
  ~Accelerator();

  // Returns, in the order of its arguments:
  //   for a module holder or a pointer to a module, a PreparedModel: compiled, under autocast; all processes get the weights of rank 0;
  //   for an optimizer of torch::optim, a PreparedOptimizer, and for a learning-rate scheduler a PreparedScheduler;
  //   for a DataLoader, one with the batches of this process.
  // For one argument the result is no tuple. Objects must outlive what was made from them. Throws UserError(distributed) if the models of
  // the processes differ, and UserError(config) for an optimizer that was prepared before.
  template <class... T>
  auto prepare(T&... objects) {
    std::tuple prepared{prepare_one(objects)...};
    if constexpr (sizeof...(T) == 1) return std::get<0>(std::move(prepared));
    else return prepared;
  }

  // Averages the gradients of parameters that belong to no prepared module, for example those of an adapter: bank.parameters(name).
  void prepare_parameters(const std::vector<NamedTensor>& parameters);

  // Begins a batch whose gradients are added to those of the batches before. The sum is averaged over the processes, and prepared
  // optimizers and schedulers step, with the last of gradient_accumulation_steps batches and with the last batch of a loader. Without
  // this call that is each batch. Returns sync_gradients().
  bool accumulate();
  // Whether this batch ends with an optimizer step.
  bool sync_gradients() const;

  // Differentiates loss / gradient_accumulation_steps and, if sync_gradients(), averages the gradients of prepared models.
  void backward(const at::Tensor& loss);
  // Scales gradients so that their norm is at most `max_norm`, and returns the norm that they had. Call it if sync_gradients().
  double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm);
  // Bf16 autocast if mixed_precision is bf16, for computations outside of prepared models.
  detail::AutocastScope autocast() const { return detail::AutocastScope(is_bf16()); }

  // Returns the tensors of all processes along dimension 0, in the order of the ranks; a tensor without dimensions counts as one element.
  // Throws UserError(shape) if the shapes differ.
  at::Tensor gather(const at::Tensor& tensor);
  // The same without what even_batches has repeated at the end of the data.
  at::Tensor gather_for_metrics(const at::Tensor& tensor);
  // Returns the sum or mean over all processes. `reduction` is "sum", "mean" or "none".
  at::Tensor reduce(const at::Tensor& tensor, const std::string& reduction = "sum");
  void wait_for_everyone();
  // Prints a line to stdout, in the main process only.
  void print(const std::string& text) const;

  // Time that this process has waited for others so far.
  double seconds_waited() const;

  int64_t process_index() const;
  int64_t local_process_index() const;
  int64_t num_processes() const;
  bool is_main_process() const { return process_index() == 0; }
  bool is_local_main_process() const { return local_process_index() == 0; }

  // Writes the state of all that was prepared, and the default generator of each process, to a directory, which appears complete or not
  // at all. load_state continues exactly, in the middle of an epoch too, in a job with the same number of processes. Throws
  // UserError(file) if a file cannot be read or written, and UserError(format) if it does not belong to this job.
  void save_state(const std::string& directory);
  void load_state(const std::string& directory);

  const AcceleratorOptions& options() const;

 private:
  bool is_bf16() const;
  template <class T>
  auto prepare_one(T& object) {
    if constexpr (std::is_same_v<T, DataLoader>) return detail::prepare_loader(*state_, object);
    else if constexpr (detail::IsOptimizer<T>) return PreparedOptimizer<T>(state_, object);
    else if constexpr (detail::IsScheduler<T>) return PreparedScheduler<T>(state_, object);
    else if constexpr (detail::IsModuleHolder<T>) return PreparedModel<std::remove_cvref_t<decltype(object.ptr())>>(state_, object.ptr());
    else return PreparedModel<T>(state_, object);
  }

  std::shared_ptr<detail::AcceleratorState> state_;
};

// Seeds the default generator. With `device_specific`, the process index is added to the seed.
TENON_API void set_seed(uint64_t seed, bool device_specific = false);

}  // namespace tenon
