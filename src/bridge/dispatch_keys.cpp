#include "bridge/dispatch_keys.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <deque>
#include <mutex>
#include <string>

#include "base/error.h"

namespace tenon::bridge {

bool take_dispatch_key(c10::DispatchKey key, torch::CppFunction fallback) {
  static std::mutex mutex;
  static auto* libraries = new std::deque<torch::Library>;  // Never destroyed: ops may run after static destructors.
  std::lock_guard lock(mutex);
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key))
    throw InternalError(std::string("dispatch key ") + c10::toString(key) +
                        " is used by another library. Tenon needs libtorch 2.13 and this key for itself; do not load the other library");
  libraries->emplace_back(torch::Library::IMPL, "_", key, __FILE__, __LINE__).fallback(std::move(fallback));
  return true;
}

}  // namespace tenon::bridge
