// Controls for what compiled functions do: for the process, for a scope, for one function. Also counters of the process.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include <tenon/compile.h>

namespace tenon {

// What compiled functions may do. The values are those of torch.compiler.set_stance.
enum class Stance {
  compile,             // Records and compiles as needed. The default.
  force_eager,         // Every call runs the program in plain eager.
  eager_on_recompile,  // Known graphs are used; calls that fit none run in plain eager and are not recorded.
  fail_on_recompile,   // A call that fits no known graph throws UserError(recompile), which says where it differs.
};

// Sets or returns the stance of the process. Both may be called from any thread; calls that are running keep the stance that they
// began with.
TENON_API void set_stance(Stance stance);
TENON_API Stance stance();

// Sets the stance of the process (all threads) and restores the earlier one when it is destroyed.
class StanceScope {
 public:
  explicit StanceScope(Stance now) : before_(stance()) { set_stance(now); }
  ~StanceScope() { set_stance(before_); }
  StanceScope(const StanceScope&) = delete;
  StanceScope& operator=(const StanceScope&) = delete;

 private:
  Stance before_;
};

namespace detail {
TENON_API void reset(Region& region);
TENON_API void disable_on_this_thread(bool on);
}  // namespace detail

// While it exists, ops of this thread run at once in eager and are in no graph. Meant for a section of a compiled function.
class DisableScope {
 public:
  DisableScope() { detail::disable_on_this_thread(true); }
  ~DisableScope() { detail::disable_on_this_thread(false); }
  DisableScope(const DisableScope&) = delete;
  DisableScope& operator=(const DisableScope&) = delete;
};

// Returns a callable that calls `function` inside a DisableScope.
template <class F>
auto disable(F function) {
  return [function = std::move(function)](auto&&... args) mutable -> decltype(auto) {
    DisableScope off;
    return std::invoke(function, std::forward<decltype(args)>(args)...);
  };
}

// Drops all recordings and graphs of a function. May be called from any thread; calls that are running finish with what they have.
template <class F>
void reset(const Compiled<F>& compiled) {
  detail::reset(*compiled.region());
}

// Counters over all compiled functions of the process.
struct Stats {
  size_t calls = 0;
  size_t answered = 0, replayed = 0, recorded = 0, plain = 0;  // Calls by how they were served; see Explanation.
  size_t graphs = 0;                                           // Number of graphs that were built.
  size_t flushes = 0;                                          // Number of times that deferred ops were run.
  size_t verified = 0, quarantined = 0;                        // Graph runs that were compared, and graphs that differed.
  size_t pack_bytes = 0;                                       // Memory of prepacked weights.
  size_t internal_errors = 0;                                  // Graphs that could not be built because of a bug in Tenon.
};
// May be called from any thread.
TENON_API Stats stats();

// Limits the memory of prepacked weights in this process. Weights beyond the limit are used without prepacking. There is no limit if
// this is never called. May be called from any thread.
TENON_API void set_pack_limit(size_t bytes);

}  // namespace tenon
