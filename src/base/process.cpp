#include "base/process.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

namespace tenon {
namespace {

std::atomic<bool> g_ending{false};

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

}  // namespace tenon
