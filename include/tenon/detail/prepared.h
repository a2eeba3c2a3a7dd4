// What Accelerator::prepare returns.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenon/compile.h>
#include <tenon/data_loader.h>
#include <tenon/detail/autocast.h>
#include <tenon/models.h>
#include <tenon/optimizer.h>

namespace tenon {
namespace detail {

class AcceleratorState;

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A learning-rate scheduler of torch::optim.
template <class T>
concept IsScheduler = requires(T& scheduler) {
  scheduler.step();
}
&&!IsOptimizer<T> && !IsModulePointer<T> && !IsModuleHolder<T>;

TENON_API void prepare_model(AcceleratorState& state, const NamedTensors& parameters, const NamedTensors& buffers);
TENON_API void prepare_optimizer(AcceleratorState& state, torch::optim::Optimizer& optimizer);
// Returns the scheduler's index.
TENON_API size_t prepare_scheduler(AcceleratorState& state, std::function<void()> step);
TENON_API DataLoader prepare_loader(AcceleratorState& state, const DataLoader& loader);

// The options of a compiled function, or nothing if the plugin compiles none.
TENON_API std::optional<Options> plugin_options(const AcceleratorState& state, const char* name);
TENON_API bool is_bf16(const AcceleratorState& state);

// Calls `step` with the gradients of an optimizer whose state is divided, if it is, and completes the parameters afterwards.
TENON_API void step_optimizer(AcceleratorState& state, torch::optim::Optimizer& optimizer, const std::function<void()>& step);
TENON_API void clear_gradients(AcceleratorState& state, torch::optim::Optimizer& optimizer);
TENON_API void step_scheduler(AcceleratorState& state, size_t index);

// A module's forward under autocast, with results in f32.
template <class P>
struct PreparedForward {
  P module;
  bool is_bf16;

  template <class... Args>
  auto operator()(Args&&... args) {
    if (!is_bf16) return module->forward(std::forward<Args>(args)...);
    AutocastScope autocast(true);
    auto result = module->forward(std::forward<Args>(args)...);
    for (at::Tensor* tensor : tensors_of(result))
      if (tensor->defined() && (tensor->scalar_type() == at::kBFloat16 || tensor->scalar_type() == at::kHalf))
        *tensor = tensor->to(at::kFloat);
    return result;
  }
};

template <class P>
NamedTensors tensors_by_name(const P& items) {
  NamedTensors out;
  for (const auto& item : items) out.emplace_back(item.key(), item.value());
  return out;
}

}  // namespace detail

// A callable with the module's forward. Members of the module are reached by `->`.
template <class P>
class PreparedModel {
 public:
  PreparedModel(std::shared_ptr<detail::AcceleratorState> state, P module) : forward_{module, detail::is_bf16(*state)}, state_(state) {
    detail::prepare_model(*state, detail::tensors_by_name(module->named_parameters()), detail::tensors_by_name(module->named_buffers()));
    if (auto options = detail::plugin_options(*state, "model")) {
      options->watch.push_back(Watched(module));
      if constexpr (std::derived_from<std::remove_cvref_t<decltype(*module)>, Model>) detail::set_model_options(*options, module);
      compiled_.emplace(forward_, std::move(*options));
    }
  }

  template <class... Args>
  auto operator()(Args&&... args) const {
    return compiled_ ? (*compiled_)(std::forward<Args>(args)...) : forward_(std::forward<Args>(args)...);
  }

  auto* operator->() const { return &*forward_.module; }
  const P& module() const { return forward_.module; }
  // The compiled forward, for explain(); null if the plugin compiles nothing.
  std::shared_ptr<Region> region() const { return compiled_ ? compiled_->region() : nullptr; }

 private:
  mutable detail::PreparedForward<P> forward_;
  std::shared_ptr<detail::AcceleratorState> state_;
  std::optional<Compiled<detail::PreparedForward<P>>> compiled_;
};

// Steps and clears gradients only where gradients are complete (Accelerator::sync_gradients).
template <class O>
class PreparedOptimizer {
 public:
  PreparedOptimizer(std::shared_ptr<detail::AcceleratorState> state, O& optimizer) : state_(std::move(state)), optimizer_(&optimizer) {
    detail::prepare_optimizer(*state_, optimizer);
    if (auto options = detail::plugin_options(*state_, "optimizer")) compiled_.emplace(compile(optimizer, std::move(*options)));
  }

  void step() {
    detail::step_optimizer(*state_, *optimizer_, [&] {
      if (compiled_) (*compiled_)();
      else optimizer_->step();
    });
  }
  void zero_grad() { detail::clear_gradients(*state_, *optimizer_); }

  O* operator->() const { return optimizer_; }
  O& optimizer() const { return *optimizer_; }

 private:
  std::shared_ptr<detail::AcceleratorState> state_;
  O* optimizer_;
  std::optional<Compiled<detail::OptimizerStep<O>>> compiled_;
};

// Steps where gradients are complete, once for each process, because all of them together have used that many batches.
template <class S>
class PreparedScheduler {
 public:
  PreparedScheduler(std::shared_ptr<detail::AcceleratorState> state, S& scheduler)
      : state_(std::move(state)), scheduler_(&scheduler), index_(detail::prepare_scheduler(*state_, [&scheduler] { scheduler.step(); })) {}

  void step() { detail::step_scheduler(*state_, index_); }
  S* operator->() const { return scheduler_; }

 private:
  std::shared_ptr<detail::AcceleratorState> state_;
  S* scheduler_;
  size_t index_;
};

}  // namespace tenon
