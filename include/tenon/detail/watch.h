// State that a compiled function depends on besides its arguments. Small templates over what
// torch::nn modules offer, so that no torch::nn header is needed here.
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

// What a watched thing consists of at one moment.
struct WatchedParts {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::vector<std::pair<std::string, std::function<uint64_t()>>> numbers;
};

template <class P>
void list_module(P module, WatchedParts& out) {
  for (auto& item : module->named_parameters()) out.tensors.emplace_back(item.key(), item.value());
  for (auto& item : module->named_buffers()) out.tensors.emplace_back(item.key(), item.value());
  // train() and eval() of up to 64 modules in one number.
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
void list_script_module(M module, WatchedParts& out) {
  for (const auto& item : module.named_parameters()) out.tensors.emplace_back(item.name, item.value);
  for (const auto& item : module.named_buffers()) out.tensors.emplace_back(item.name, item.value);
  for (const auto& part : module.modules())
    out.numbers.emplace_back("training", [part] { return static_cast<uint64_t>(part.is_training()); });
}

}  // namespace detail

class Watched {
 public:
  template <class T>
  requires detail::IsModulePointer<T> Watched(T module)
      : list_([module](detail::WatchedParts& out) { detail::list_module(module, out); }) {}

  template <class T>
  requires detail::IsModuleHolder<T> Watched(T holder) : Watched(holder.ptr()) {}

  template <class T>
  requires detail::IsScriptModule<T> Watched(T module)
      : list_([module](detail::WatchedParts& out) { detail::list_script_module(module, out); }) {}

  Watched(at::Tensor tensor) : list_([tensor](detail::WatchedParts& out) { out.tensors.emplace_back("watched", tensor); }) {}

  // A number or bool of the program's that the function branches on or computes with.
  template <class T>
  requires std::is_arithmetic_v<T> Watched(const T* number)
      : list_([number](detail::WatchedParts& out) {
          out.numbers.emplace_back("watched number", [number] {
            uint64_t bits = 0;
            std::memcpy(&bits, number, sizeof(T));
            return bits;
          });
        }) {}

  // Tensors that matter only while gradients are recorded; asked for anew at each recording.
  static Watched with_gradients(std::function<std::vector<at::Tensor>()> tensors) {
    Watched out{at::Tensor()};
    out.list_ = [tensors = std::move(tensors)](detail::WatchedParts& parts) {
      if (!at::GradMode::is_enabled()) return;
      for (at::Tensor& tensor : tensors()) parts.tensors.emplace_back("trained", std::move(tensor));
    };
    return out;
  }

  void list(detail::WatchedParts& out) const { list_(out); }

 private:
  std::function<void(detail::WatchedParts&)> list_;
};

}  // namespace tenon
