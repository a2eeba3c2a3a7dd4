// State that a compiled function depends on besides its arguments. Modules are recognised by their members, so that no torch::nn header
// is needed here.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenon/detail/leaf_types.h>

namespace tenon {
namespace detail {

template <class M>
concept IsModule = requires(M& m) {
  m.named_parameters();
  m.named_buffers();
  m.modules(false);
  { m.is_training() } -> std::convertible_to<bool>;
};

template <class T>
concept IsModulePointer = requires(T& p) {
  *p;
}
&&IsModule<std::remove_reference_t<decltype(*std::declval<T&>())>> && !requires(T & p) { p.ptr(); };

template <class T>
concept IsModuleHolder = requires(T& h) {
  h.ptr();
}
&&IsModulePointer<decltype(std::declval<T&>().ptr())>;

// What an optimizer's next step does on the host: it counts, and computes constants of its ops.
struct HostStep {
  struct OpConstant {
    const char* op;    // The in-place op on the parameter that takes it. Null: the value tells, since it is another one in each step.
    size_t parameter;  // Index into `parameters`.
    double value;
  };
  std::vector<at::Tensor> parameters;
  std::vector<int64_t*> counts;  // One per parameter; null if its steps are not counted.
  std::vector<OpConstant> constants;
};

// The state of a watched object at one moment.
struct WatchedState {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::vector<std::pair<std::string, std::function<uint64_t()>>> numbers;
  std::vector<std::function<HostStep()>> optimizers;
};

template <class P>
void list_module(P module, WatchedState& out) {
  for (auto& item : module->named_parameters()) out.tensors.emplace_back(item.key(), item.value());
  for (auto& item : module->named_buffers()) out.tensors.emplace_back(item.key(), item.value());
  // The training flags of up to 64 modules are bits of one number.
  out.numbers.emplace_back("training", [module] { return static_cast<uint64_t>(module->is_training()); });
  auto children = module->modules(/*include_self=*/false);
  for (size_t first = 0; first < children.size(); first += 64) {
    std::vector group(children.begin() + first, children.begin() + std::min(first + 64, children.size()));
    out.numbers.emplace_back("training", [group] {
      uint64_t bits = 0;
      for (size_t i = 0; i < group.size(); ++i) bits |= static_cast<uint64_t>(group[i]->is_training()) << i;
      return bits;
    });
  }
}

// A torch::jit::Module is a handle: a copy of it has the same parameters.
template <class M>
void list_script_module(M module, WatchedState& out) {
  for (const auto& item : module.named_parameters()) out.tensors.emplace_back(item.name, item.value);
  for (const auto& item : module.named_buffers()) out.tensors.emplace_back(item.name, item.value);
  for (const auto& child : module.modules())
    out.numbers.emplace_back("training", [child] { return static_cast<uint64_t>(child.is_training()); });
}

}  // namespace detail

// Something that a `pure` function depends on: a module, a tensor, or a number that the program changes.
class Watched {
 public:
  template <class T>
  requires detail::IsModulePointer<T> Watched(T module)
      : list_([module](detail::WatchedState& out) { detail::list_module(module, out); }) {}

  template <class T>
  requires detail::IsModuleHolder<T> Watched(T holder) : Watched(holder.ptr()) {}

  template <class T>
  requires detail::IsScriptModule<T> Watched(T module)
      : list_([module](detail::WatchedState& out) { detail::list_script_module(module, out); }) {}

  Watched(at::Tensor tensor) : list_([tensor](detail::WatchedState& out) { out.tensors.emplace_back("watched", tensor); }) {}

  // A number or bool that the function branches on or computes with. The pointer must stay valid for as long as the compiled function.
  template <class T>
  requires std::is_arithmetic_v<T> Watched(const T* number)
      : list_([number](detail::WatchedState& out) {
          out.numbers.emplace_back("watched number", [number] {
            uint64_t bits = 0;
            std::memcpy(&bits, number, sizeof(T));
            return bits;
          });
        }) {}

  // `list` adds what the function depends on. It is called at each recording.
  static Watched listed(std::function<void(detail::WatchedState&)> list) {
    Watched out{at::Tensor()};
    out.list_ = std::move(list);
    return out;
  }

  // Tensors that the function depends on while grad mode is on. `tensors` is called at each recording.
  static Watched with_gradients(std::function<std::vector<at::Tensor>()> tensors) {
    return listed([tensors = std::move(tensors)](detail::WatchedState& state) {
      if (!at::GradMode::is_enabled()) return;
      for (at::Tensor& tensor : tensors()) state.tensors.emplace_back("trained", std::move(tensor));
    });
  }

  void list(detail::WatchedState& out) const { list_(out); }

 private:
  std::function<void(detail::WatchedState&)> list_;
};

}  // namespace tenon
