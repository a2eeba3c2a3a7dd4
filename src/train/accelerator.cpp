#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <tenon/accelerate.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "dist/launch.h"
#include "train/accelerator_state.h"
#include "train/compile_plugin.h"

namespace tenon {
namespace detail {
namespace {

// The first line in which two texts differ, as the second one has it.
std::string first_difference(const std::string& left, const std::string& right) {
  size_t begin = 0;
  while (begin < right.size()) {
    size_t end = std::min(right.find('\n', begin), right.size());
    if (left.compare(begin, end + 1 - begin, right, begin, end + 1 - begin) != 0) return right.substr(begin, end - begin);
    begin = end + 1;
  }
  return "nothing more";
}

}  // namespace

std::string describe(const NamedTensors& tensors) {
  std::string out;
  for (const auto& [name, tensor] : tensors) {
    out += name + " " + c10::toString(tensor.scalar_type()) + "[";
    for (int64_t size : tensor.sizes()) out += std::to_string(size) + ",";
    out += tensor.requires_grad() ? "] trained\n" : "]\n";
  }
  return out;
}

void check_equal(dist::ProcessGroup& group, const std::string& what, const std::string& text, ErrorCode code) {
  if (group.size() == 1) return;
  std::vector<std::string> all = group.gather_texts(text);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw UserError(code, what + " of rank " + std::to_string(rank) + " differ from those of rank 0: rank 0 has " +
                                shown(first_difference(all[rank], all[0])) + " where rank " + std::to_string(rank) + " has " +
                                shown(first_difference(all[0], all[rank])) +
                                ". All processes must run the same program with the same settings.");
}

AcceleratorState::AcceleratorState(AcceleratorOptions settings)
    : options(train::with_environment(std::move(settings))),
      compile_options(train::compile_options(options.plugin)),
      is_bf16(options.mixed_precision == "bf16"),
      group(dist::ProcessGroup::join(dist::read_launch(), options.timeout_seconds)) {
  check_equal(*group, "the settings of the Accelerator",
              "gradient_accumulation_steps " + std::to_string(options.gradient_accumulation_steps) + "\nmixed_precision " +
                  *options.mixed_precision + "\nbucket_megabytes " + std::to_string(options.bucket_megabytes) + "\nsplit_batches " +
                  std::to_string(options.split_batches) + "\neven_batches " + std::to_string(options.even_batches) +
                  "\nshard_optimizer_state " + std::to_string(options.shard_optimizer_state) + "\n");
}

void AcceleratorState::begin_iteration(const LoaderProgress* loader, int64_t remainder) {
  std::erase_if(iterations, [&](const Iteration& it) { return it.loader == loader; });
  iterations.push_back({loader, false, remainder});
}

void AcceleratorState::set_current(const LoaderProgress* loader, bool is_at_end) {
  auto found = std::find_if(iterations.begin(), iterations.end(), [&](const Iteration& it) { return it.loader == loader; });
  if (found == iterations.end()) return;
  found->is_at_end = is_at_end;
  std::rotate(found, found + 1, iterations.end());
}

AcceleratorState::OptimizerEntry& AcceleratorState::entry_of(const torch::optim::Optimizer& optimizer) {
  return *std::find_if(optimizers.begin(), optimizers.end(), [&](const OptimizerEntry& entry) { return entry.optimizer == &optimizer; });
}

void AcceleratorState::average_gradients() {
  for (PreparedTensors& model : models) {
    model.buckets->average();
    // As in DistributedDataParallel, averages of batch norm are those of rank 0.
    std::vector<at::Tensor> all;
    for (const auto& item : model.buffers) all.push_back(item.second);
    dist::broadcast_all(*group, all);
  }
}

void prepare_model(AcceleratorState& state, const NamedTensors& parameters, const NamedTensors& buffers) {
  check_equal(*state.group, "the parameters of a model", describe(parameters) + describe(buffers));
  std::vector<at::Tensor> trained, all;
  for (const auto& item : parameters) trained.push_back(item.second), all.push_back(item.second);
  for (const auto& item : buffers) all.push_back(item.second);
  dist::broadcast_all(*state.group, all);
  size_t bucket_bytes = static_cast<size_t>(state.options.bucket_megabytes) << 20;
  state.models.push_back({parameters, buffers, std::make_unique<dist::GradientBuckets>(trained, state.group, bucket_bytes)});
}

void prepare_optimizer(AcceleratorState& state, torch::optim::Optimizer& optimizer) {
  for (const auto& known : state.optimizers)
    if (known.optimizer == &optimizer) throw UserError(ErrorCode::config, "the optimizer was prepared before. Prepare each object once.");
  AcceleratorState::OptimizerEntry entry{&optimizer, nullptr};
  if (state.options.shard_optimizer_state && state.group->size() > 1)
    entry.shards = std::make_unique<dist::OptimizerShards>(optimizer, state.group);
  state.optimizers.push_back(std::move(entry));
}

size_t prepare_scheduler(AcceleratorState& state, std::function<void()> step) {
  state.schedulers.push_back({std::move(step)});
  return state.schedulers.size() - 1;
}

DataLoader prepare_loader(AcceleratorState& state, const DataLoader& loader) {
  auto weak = state.weak_from_this();
  LoaderShare share{.rank = state.group->rank(),
                    .ranks = state.group->size(),
                    .split_batches = state.options.split_batches,
                    .even_batches = state.options.even_batches};
  share.broadcast = [weak](const at::Tensor& tensor) {
    at::Tensor out = tensor.clone();
    if (auto locked = weak.lock()) dist::broadcast_all(*locked->group, {out});
    return out;
  };
  bool drops = loader.options().drop_last;
  share.begin = [weak, drops](const LoaderProgress* progress, int64_t examples, int64_t per_round) {
    if (auto locked = weak.lock()) locked->begin_iteration(progress, drops ? 0 : examples % per_round);
  };
  share.next = [weak](const LoaderProgress* progress, bool is_last) {
    if (auto locked = weak.lock()) locked->set_current(progress, is_last);
  };
  share.end = [weak](const LoaderProgress* progress) {
    if (auto locked = weak.lock())
      std::erase_if(locked->iterations, [&](const AcceleratorState::Iteration& it) { return it.loader == progress; });
  };
  DataLoader out = loader.shared(std::move(share));
  state.loaders.push_back(out.progress());
  return out;
}

std::optional<Options> plugin_options(const AcceleratorState& state, const char* name) {
  std::optional<Options> out = state.compile_options;
  if (out) out->name = name;
  return out;
}

bool is_bf16(const AcceleratorState& state) { return state.is_bf16; }

void step_optimizer(AcceleratorState& state, torch::optim::Optimizer& optimizer, const std::function<void()>& step) {
  if (!state.is_sync) return;
  dist::OptimizerShards* shards = state.entry_of(optimizer).shards.get();
  if (shards) shards->set_gradients();
  step();
  if (shards) shards->gather();
}

void clear_gradients(AcceleratorState& state, torch::optim::Optimizer& optimizer) {
  if (!state.is_sync) return;
  if (dist::OptimizerShards* shards = state.entry_of(optimizer).shards.get()) shards->clear_gradients();
  else
    for (auto& group : optimizer.param_groups())
      for (at::Tensor& parameter : group.params()) parameter.mutable_grad().reset();
}

void step_scheduler(AcceleratorState& state, size_t index) {
  bool follows = state.options.step_scheduler_with_optimizer;
  if (follows && !state.is_sync) return;
  int64_t count = follows && !state.options.split_batches ? state.group->size() : 1;
  AcceleratorState::SchedulerEntry& entry = state.schedulers[index];
  for (int64_t i = 0; i < count; ++i) entry.step();
  entry.steps += count;
}

}  // namespace detail

Accelerator::Accelerator(AcceleratorOptions options) : state_(std::make_shared<detail::AcceleratorState>(std::move(options))) {}
Accelerator::~Accelerator() = default;

void Accelerator::prepare_parameters(const std::vector<NamedTensor>& parameters) {
  detail::prepare_model(*state_, detail::tensors_by_name(parameters), {});
}

bool Accelerator::accumulate() {
  const auto* iteration = state_->current();
  if (iteration && iteration->is_at_end) {
    state_->step = 0;
    state_->is_sync = true;
  } else {
    ++state_->step;
    state_->is_sync = state_->step % state_->options.gradient_accumulation_steps == 0;
  }
  return state_->is_sync;
}

bool Accelerator::sync_gradients() const { return state_->is_sync; }
bool Accelerator::is_bf16() const { return state_->is_bf16; }

void Accelerator::backward(const at::Tensor& loss) {
  int64_t batches = state_->options.gradient_accumulation_steps;
  bool is_compiled = state_->compile_options.has_value();
  // With several models, a parameter that one process does not use could change the order of the collectives.
  if (state_->is_sync && !is_compiled && state_->models.size() == 1) state_->models[0].buckets->begin_early();
  (batches == 1 ? loss : loss / batches).backward();
  if (state_->is_sync) state_->average_gradients();
}

double Accelerator::clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm) {
  return torch::nn::utils::clip_grad_norm_(parameters, max_norm);
}

at::Tensor Accelerator::gather(const at::Tensor& tensor) {
  at::Tensor own = tensor.detach().contiguous();
  if (own.dim() == 0) own = own.unsqueeze(0);
  dist::ProcessGroup& group = *state_->group;
  if (group.size() == 1) return own;
  detail::check_equal(group, "the shapes that gather() gets",
                      std::string(c10::toString(own.scalar_type())) + " " + c10::str(own.sizes()) + "\n", ErrorCode::shape);
  std::vector<int64_t> sizes = own.sizes().vec();
  sizes[0] *= group.size();
  at::Tensor out = at::empty(sizes, own.options());
  group.gather(own, out).wait();
  return out;
}

at::Tensor Accelerator::gather_for_metrics(const at::Tensor& tensor) {
  at::Tensor out = gather(tensor);
  const auto* iteration = state_->current();
  if (state_->group->size() == 1 || !iteration || !iteration->is_at_end || iteration->remainder == 0) return out;
  return out.narrow(0, 0, std::min(iteration->remainder, out.size(0)));
}

at::Tensor Accelerator::reduce(const at::Tensor& tensor, const std::string& reduction) {
  if (reduction != "sum" && reduction != "mean" && reduction != "none")
    throw UserError(ErrorCode::config, "reduce: the reduction is " + shown(reduction) + ", must be sum, mean or none.");
  at::Tensor out = tensor.detach().clone(at::MemoryFormat::Contiguous);
  if (reduction == "none") return out;
  state_->group->sum(out).wait();
  return reduction == "mean" ? out / state_->group->size() : out;
}

void Accelerator::wait_for_everyone() { state_->group->barrier(); }

void Accelerator::print(const std::string& text) const {
  if (is_main_process()) std::printf("%s\n", text.c_str()), std::fflush(stdout);
}

double Accelerator::seconds_waited() const { return state_->group->seconds_waited(); }
int64_t Accelerator::process_index() const { return state_->group->rank(); }
int64_t Accelerator::local_process_index() const { return state_->group->launch().local_rank; }
int64_t Accelerator::num_processes() const { return state_->group->size(); }
const AcceleratorOptions& Accelerator::options() const { return state_->options; }

void set_seed(uint64_t seed, bool device_specific) {
  at::manual_seed(seed + (device_specific ? static_cast<uint64_t>(dist::read_launch().rank) : 0));
}

}  // namespace tenon
