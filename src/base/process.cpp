#include "base/process.h"

#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>

namespace tenon {
namespace {

std::atomic<bool> g_ending{false};

// The number of scopes of all threads, and whether a fork is under way.
constexpr int kForks = 1 << 30;
std::atomic<int> g_scopes{0};
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
  int scopes = g_scopes.load();
  while ((scopes & kForks) || !g_scopes.compare_exchange_weak(scopes, scopes + 1)) {
    if (scopes & kForks) sched_yield();
    scopes = g_scopes.load();
  }
  ++t_scopes;
}

NoForkScope::~NoForkScope() {
  --t_scopes;
  --g_scopes;
}

// A thread in a scope may wait for another that enters one, so the fork does not stop threads from entering while it waits itself.
void wait_for_no_fork_scopes() {
  for (int own = t_scopes; !g_scopes.compare_exchange_weak(own, own | kForks); own = t_scopes) sched_yield();
}

void end_of_fork() { g_scopes &= ~kForks; }

}  // namespace tenon
