// tenon::compile: a libtorch program in, the same program with a recorded graph behind it out.
//
//   auto fast = tenon::compile(model);      // a module holder, a pointer to a module, or any callable
//   auto y    = fast(x);                    // same arguments, same results
//
// A torch::jit::Module is called with its arguments, or with one std::vector<c10::IValue>.
//
// Arguments and results may be tensors, numbers, bools, strings, c10::IValue, torch::jit::Module, std::optional,
// std::vector, std::array, std::pair, std::tuple, std::map and std::unordered_map of these, and structs with a member
// `template <class F> auto visit(F&& f) { return f(member1, member2); }`.
#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenon/detail/leaves.h>
#include <tenon/detail/watch.h>

namespace tenon {

// When a recorded graph may answer for the program.
enum class Trust {
  checked,  // the program's own C++ runs on every call and is compared with what was recorded; ops
            // that agree wait for the graph
  pure,     // once two recordings agree the program is not run again: the caller declares that it
            // depends only on its arguments and on the state that it is given to watch
};

// What a call with sizes or integers that are new means.
enum class Dynamic {
  no,         // it is recorded, and gets graphs of its own
  automatic,  // from the second time on it follows from what was recorded, without being recorded again
  yes,        // the same from the start
};

// What backend `native` may spend to be faster.
enum class Mode {
  standard,         // what torch.compile calls default: memory is shared with other compiled functions
  reduce_overhead,  // the memory of a call is kept for the next one, results too if nobody holds them: nothing is allocated or
                    // dispatched but by the library calls that `explain` lists
  max_autotune,     // the same; besides, the first call tries what else each step could be run by
};

// What happens when Tenon itself fails while it builds a graph. The program runs without that graph in any case, and
// `explain` and `stats` tell.
enum class OnInternalError {
  warn,    // once a function, a warning on stderr with the reason and the command that reproduces it
  raise,   // the call throws InternalError, after the program has run; for tests
  ignore,  // nothing is printed
};

struct Options {
  // none, eager, aot_eager, aten, native (in a build without code generation the same as aten), or one from register_backend
  std::string backend = "native";
  bool fullgraph = false;  // a graph break is an error
  Trust trust = Trust::checked;
  std::string name = "function";  // in explain and in messages
  std::vector<Watched> watch;     // modules, tensors and numbers that a callable depends on
  size_t recompile_limit = 16;    // recordings; after them, calls that none fits run as they are
  Dynamic dynamic = Dynamic::automatic;
  Mode mode = Mode::standard;
  double tuning_seconds = 20;  // that max_autotune may take for a graph; a terminal is told how far it is
  double verify = 0;           // this fraction of a graph's runs is compared with plain interpretation
  OnInternalError on_internal_error = OnInternalError::warn;
  bool quiet = false;  // a terminal is not told about compiles that take longer than two seconds
};

namespace detail {

class Region;  // src/driver/region.h

struct Answer {
  std::shared_ptr<const std::any> prototype;  // the result with its tensors taken out; null: not answered
  c10::SmallVector<at::Tensor, 4> tensors;
};

// What a recorded run left: pointers to the tensors in its result, and the prototype.
struct Outcome {
  TensorPlaces tensors;
  std::shared_ptr<const std::any> prototype;
};

std::shared_ptr<Region> make_region(Options options);
Answer answer(Region& region, const Leaves& in);
void record(Region& region, const Leaves& in, const std::function<Outcome()>& body);

}  // namespace detail

template <class F>
class Compiled {
 public:
  Compiled(F function, Options options) : function_(std::move(function)), region_(detail::make_region(std::move(options))) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using R = std::decay_t<std::invoke_result_t<F&, Args...>>;
    detail::Leaves in;
    (detail::collect(in, args), ...);
    detail::Answer known = detail::answer(*region_, in);
    if constexpr (std::is_void_v<R>) {
      if (!known.prototype)
        detail::record(*region_, in, [&]() -> detail::Outcome {
          std::invoke(function_, std::forward<Args>(args)...);
          return {{}, std::make_shared<const std::any>(0)};
        });
    } else {
      if (known.prototype) {
        R result = std::any_cast<const R&>(*known.prototype);
        detail::unshare(result);
        detail::put_tensors(result, known.tensors);
        return result;
      }
      std::optional<R> result;
      detail::record(*region_, in, [&]() -> detail::Outcome {
        result.emplace(std::invoke(function_, std::forward<Args>(args)...));
        return {detail::tensors_of(*result), detail::prototype_of(*result)};
      });
      return std::move(*result);
    }
  }

  const std::shared_ptr<detail::Region>& region() const { return region_; }

 private:
  mutable F function_;  // forward() of a module is not const, nor is a mutable lambda
  std::shared_ptr<detail::Region> region_;
};

namespace detail {

// Calls a module's forward; P is a shared_ptr or a raw pointer to the module.
template <class P>
struct Forward {
  P module;
  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    return module->forward(std::forward<Args>(args)...);
  }
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

template <class P>
auto compile_module(P module, Options options) {
  options.watch.insert(options.watch.begin(), Watched(module));
  return Compiled<Forward<P>>({std::move(module)}, std::move(options));
}

}  // namespace detail

template <class T>
auto compile(T target, Options options = {}) {
  if constexpr (detail::IsModulePointer<T>) {
    return detail::compile_module(std::move(target), std::move(options));
  } else if constexpr (detail::IsModuleHolder<T>) {
    return detail::compile_module(target.ptr(), std::move(options));
  } else if constexpr (detail::IsScriptModule<T>) {
    options.watch.insert(options.watch.begin(), Watched(target));
    return Compiled<detail::ScriptForward<T>>({std::move(target)}, std::move(options));
  } else {
    return Compiled<T>(std::move(target), std::move(options));
  }
}

// A backend of one's own: takes a graph as text and a function that runs it op by op; gives back a
// function from the graph's inputs to its outputs. Inputs that the graph's `write` lines name are
// to be overwritten, as the op-by-op function does. What the graph lists as `scalar` comes after the
// inputs, as one tensor of doubles.
using Runner = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>;
using Backend = std::function<Runner(const std::string& graph, Runner op_by_op)>;
void register_backend(const std::string& name, Backend backend);
std::vector<std::string> backends();

}  // namespace tenon
