// Callables that call a module's forward.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

namespace c10 {
struct IValue;
}

namespace tenon::detail {

// Calls a module's forward. P is a shared_ptr or a raw pointer to the module.
template <class P>
struct Forward {
  P module;
  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    return module->forward(std::forward<Args>(args)...);
  }
};

// A class of torch::optim.
template <class T>
concept IsOptimizer = requires(T& optimizer) {
  optimizer.param_groups();
  optimizer.zero_grad();
  optimizer.step();
};

// Calls a torch::jit::Module's forward.
template <class M>
struct ScriptForward {
  M module;
  template <class... Args>
  auto operator()(Args&&... args) {
    if constexpr (sizeof...(Args) == 1 && (std::is_same_v<std::decay_t<Args>, std::vector<c10::IValue>> && ...)) {
      return module.forward(std::forward<Args>(args)...);
    } else {
      return module.forward({std::forward<Args>(args)...});
    }
  }
};

}  // namespace tenon::detail
