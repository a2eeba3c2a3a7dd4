// Parallel loops on libtorch's threads. at::parallel_for would be serial here, because it is compiled into the caller, without
// OpenMP.
#pragma once

#include <torch/csrc/stable/c/shim.h>

#include <cstdint>
#include <type_traits>

#include "base/error.h"

namespace tenon::bridge {

// `body(begin, end)` must not throw.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& body) {
  using Body = std::remove_reference_t<F>;
  auto run = [](int64_t from, int64_t to, void* what) { (*static_cast<Body*>(what))(from, to); };
  if (torch_parallel_for(begin, end, grain, run, const_cast<std::remove_const_t<Body>*>(&body)) != 0)
    throw InternalError("a loop failed on libtorch's threads");
}

}  // namespace tenon::bridge
