// tenon::compile takes a libtorch program and returns the same program with compiled graphs behind it.
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

#include <tenon/detail/forward.h>
#include <tenon/detail/leaves.h>
#include <tenon/detail/watch.h>
#include <tenon/error.h>
#include <tenon/export.h>

namespace tenon {

// When a recorded graph may compute the result of a call.
enum class Trust {
  // The program's own C++ runs on every call. Its ops are compared with the recorded ones; ops that are equal are deferred and
  // computed by compiled code.
  checked,
  // The program does not run again once two recordings were equal. The caller declares that its result depends only on the
  // arguments and on Options::watch.
  pure,
};

// What happens when a call has new sizes or new integer arguments.
enum class Dynamic {
  no,         // The call is recorded and gets a graph of its own.
  automatic,  // The call is followed without a recording. The second new size, or one that comes again, makes a graph for all sizes.
  yes,        // The same, but the first new size already makes the graph for all sizes.
};

// What backend `native` may spend for speed. The values are those of torch.compile.
enum class Mode {
  // Scratch memory is shared with other compiled functions. torch.compile calls this mode "default".
  standard,
  // The memory of a call, and results that nobody holds any longer, are reused by the next call. Apart from the library calls
  // that `explain` lists, a call then allocates and dispatches nothing.
  reduce_overhead,
  // Like reduce_overhead. In addition the first call measures alternative implementations of each step.
  max_autotune,
};

// What happens when Tenon itself fails while it builds a graph. In each case the program runs without that graph, and `explain`
// and `stats` report the failure.
enum class OnInternalError {
  warn,    // Prints one warning per function to stderr, with the reason and the command that reproduces it.
  raise,   // The call throws InternalError after the program has run. Meant for tests.
  ignore,  // Prints nothing.
};

struct Options {
  // One of none, eager, aot_eager, aten, native, or a name given to register_backend. In a build without code generation `native`
  // is the same as `aten`. compile() throws UserError(backend) for an unknown name.
  std::string backend = "native";
  // Calls throw UserError(fullgraph) at a graph break instead of splitting the program there.
  bool fullgraph = false;
  // Models of tenon::load_model are always compiled as `pure`, whatever is set here.
  Trust trust = Trust::checked;
  // Name of the function in `explain` and in messages.
  std::string name = "function";
  // Modules, tensors and numbers that a `pure` callable depends on besides its arguments.
  std::vector<Watched> watch;
  // Number of recordings after which calls that fit no graph run as plain eager. The first such call prints a warning.
  size_t recompile_limit = 16;
  Dynamic dynamic = Dynamic::automatic;
  // Tensors among the arguments, counted from 0 as in `explain`, whose sizes stay constants of the graphs: each of their sizes gets
  // graphs of its own. Calls throw UserError(config) if there are fewer tensors.
  std::vector<size_t> specialise;
  // Fraction in [0, 1] of the fastest choice's memory that a `pure` forward may save for its backward, which computes the rest again.
  double memory_budget = 1;
  Mode mode = Mode::standard;
  // Time that max_autotune may spend on one graph. Progress is shown on a terminal.
  double tuning_seconds = 20;
  // Fraction of a graph's runs that are compared with running its ops one by one in ATen.
  double verify = 0;
  OnInternalError on_internal_error = OnInternalError::warn;
  // Prints nothing on a terminal about compiles that take longer than two seconds.
  bool quiet = false;
};

// Everything that is known about one compiled function: its recordings, graphs and counters. Opaque; `explain` and `reset` take it.
class Region;

namespace detail {

// Result of a call that a graph computed. `prototype` is the result without its tensors, or null if no graph fits the call.
struct GraphResult {
  std::shared_ptr<const std::any> prototype;
  c10::SmallVector<at::Tensor, 4> tensors;
};

// Result of a recorded run: pointers to the tensors in it, and its prototype.
struct RecordedResult {
  TensorPointers tensors;
  std::shared_ptr<const std::any> prototype;
};

TENON_API std::shared_ptr<Region> make_region(Options options);
TENON_API GraphResult run_graph(Region& region, const Leaves& in);
TENON_API void record(Region& region, const Leaves& in, const std::function<RecordedResult()>& body);

}  // namespace detail

// A compiled callable. Copies share recordings and graphs. Calls may be made from several threads at once if the function itself
// may be. A call throws what the function throws, and UserError as described at Options.
template <class F>
class Compiled {
 public:
  Compiled(F function, Options options) : function_(std::move(function)), region_(detail::make_region(std::move(options))) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using R = std::decay_t<std::invoke_result_t<F&, Args...>>;
    detail::Leaves in;
    (detail::collect(in, args), ...);
    detail::GraphResult known = detail::run_graph(*region_, in);
    if constexpr (std::is_void_v<R>) {
      if (!known.prototype)
        detail::record(*region_, in, [&]() -> detail::RecordedResult {
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
      detail::record(*region_, in, [&]() -> detail::RecordedResult {
        result.emplace(std::invoke(function_, std::forward<Args>(args)...));
        return {detail::tensors_of(*result), detail::prototype_of(*result)};
      });
      return std::move(*result);
    }
  }

  const std::shared_ptr<Region>& region() const { return region_; }

 private:
  mutable F function_;  // Module::forward and mutable lambdas are not const.
  std::shared_ptr<Region> region_;
};

namespace detail {

template <class P>
auto compile_module(P module, Options options) {
  options.watch.insert(options.watch.begin(), Watched(module));
  return Compiled<Forward<P>>({std::move(module)}, std::move(options));
}

}  // namespace detail

// Compiles a module or a callable. Nothing is recorded before the first call. A module's parameters, buffers and training flag are
// watched. The module must outlive the result if it is given as a raw pointer. Throws UserError(backend) for an unknown backend.
template <class T>
requires(!detail::IsOptimizer<T>) auto compile(T target, Options options = {}) {
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

// Runs a graph: takes the tensors of its inputs and returns those of its outputs. Inputs that a `write` line of the graph names are
// overwritten. If the graph lists `scalar` values, they come after the inputs as one tensor of doubles.
using Runner = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>;
// A backend of the user's: takes a graph as text, and a runner that executes it op by op in ATen; returns a runner that computes the
// same. It may be called from any thread.
using Backend = std::function<Runner(const std::string& graph, Runner op_by_op)>;
// Makes a backend available to Options::backend. Throws UserError(backend) if the name is taken. May be called from any thread.
TENON_API void register_backend(const std::string& name, Backend backend);
// The names that Options::backend accepts. May be called from any thread.
TENON_API std::vector<std::string> backends();

}  // namespace tenon
