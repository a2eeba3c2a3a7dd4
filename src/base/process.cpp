#include "base/process.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

namespace tenon {
namespace {

std::atomic<bool> g_ending{false};

bool settle() {
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&settle_in_process), &library) && library.dli_fname)
    dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  std::atexit([] { g_ending = true; });
  return true;
}

}  // namespace

void settle_in_process() {
  static const bool settled = settle();
  (void)settled;
}

bool process_is_ending() { return g_ending.load(std::memory_order_relaxed); }

}  // namespace tenon
