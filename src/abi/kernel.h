// What generated code is called with. The range is of the flattened iteration space of a kernel's
// parallel variables, row-major; the signature is that of torch_parallel_for's callback.
#pragma once

#include <cstdint>

namespace tenon::abi {

struct KernelArguments {
  void* const* buffers;
  const int64_t* sizes;
  const double* scalars;
};

using KernelFunction = void (*)(int64_t begin, int64_t end, void* arguments);

}  // namespace tenon::abi
