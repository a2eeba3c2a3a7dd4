#include "base/process.h"

#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>

namespace tenon {
namespace {

std::atomic<bool> g_ending{false};

// The number of threads that are in a scope, and whether a fork is under way.
constexpr int kForks = 1 << 30;
std::atomic<int> g_threads{0};
thread_local int t_scopes = 0;

bool register_library() {
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&keep_library_loaded), &library) && library.dli_fname)
    dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  std::atexit([] { g_ending = true; });
  return true;
}

}  // namespace

void keep_library_loaded() {
  static const bool done = register_library();
  (void)done;
}

bool process_is_ending() { return g_ending.load(std::memory_order_relaxed); }

NoForkScope::NoForkScope() {
  if (t_scopes++ > 0) return;
  int threads = g_threads.load();
  while ((threads & kForks) || !g_threads.compare_exchange_weak(threads, threads + 1)) {
    if (threads & kForks) sched_yield();
    threads = g_threads.load();
  }
}

NoForkScope::~NoForkScope() {
  if (--t_scopes == 0) --g_threads;
}

// A thread in a scope may wait for another that enters one, so the fork does not stop threads from entering while it waits itself.
void wait_for_no_fork_scopes() {
  const int own = t_scopes > 0 ? 1 : 0;
  for (int threads = own; !g_threads.compare_exchange_weak(threads, threads | kForks); threads = own) sched_yield();
}

void end_of_fork() { g_threads &= ~kForks; }

}  // namespace tenon
