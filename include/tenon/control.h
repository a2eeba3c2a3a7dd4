// How much Tenon may do: for the process, for a scope, for one compiled function.
#pragma once

#include <cstddef>
#include <utility>

#include <tenon/compile.h>

namespace tenon {

// What compiled functions may do while it holds.
enum class Stance {
  compile,             // the usual
  force_eager,         // the programs run as they are
  eager_on_recompile,  // known graphs answer; what they do not fit runs as it is, nothing new is recorded
  fail_on_recompile,   // a call that no known graph fits is an error that says where it differs
};

// For the whole process.
void set_stance(Stance stance);
Stance stance();

// For all threads, while it lives.
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
void reset(Region& region);
void disable_on_this_thread(bool on);
}  // namespace detail

// While it lives, what this thread does runs at once and enters no graph. Meant for a part of a
// compiled function.
class DisableScope {
 public:
  DisableScope() { detail::disable_on_this_thread(true); }
  ~DisableScope() { detail::disable_on_this_thread(false); }
  DisableScope(const DisableScope&) = delete;
  DisableScope& operator=(const DisableScope&) = delete;
};

// The same for one callable.
template <class F>
auto disable(F function) {
  return [function = std::move(function)](auto&&... args) mutable -> decltype(auto) {
    DisableScope off;
    return std::invoke(function, std::forward<decltype(args)>(args)...);
  };
}

// Forgets all that was recorded and built for a function.
template <class F>
void reset(const Compiled<F>& compiled) {
  detail::reset(*compiled.region());
}

// Counts over all compiled functions of the process.
struct Stats {
  size_t calls = 0;
  size_t answered = 0, replayed = 0, recorded = 0, plain = 0;  // as in Explanation
  size_t graphs = 0;                                           // built
  size_t flushes = 0;                                          // times that waiting ops were run
  size_t verified = 0, quarantined = 0;
  size_t pack_bytes = 0;       // of weights that are kept in another form too
  size_t internal_errors = 0;  // graphs that could not be built because of a fault in Tenon
};
Stats stats();

// How much memory packs may take in this process; as much as they need if never called. Weights that find no room are used as they
// are.
void set_pack_limit(size_t bytes);

}  // namespace tenon
