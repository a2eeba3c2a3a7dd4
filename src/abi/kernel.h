// The calling convention of compiled kernels. Plain data, because kernels are compiled separately from the caller.
#pragma once

#include <cstdint>

namespace tenon::abi {

struct KernelArguments {
  void* const* buffers;  // Addresses of the first elements, in the order of the kernel's buffers.
  const int64_t* sizes;  // Sizes and strides, in elements.
  const double* scalars;
};

// Runs the iterations [begin, end) of the flattened parallel loop (the last variable runs fastest). `arguments` points to a
// KernelArguments. Calls for disjoint ranges may run concurrently.
using KernelFunction = void (*)(int64_t begin, int64_t end, void* arguments);

}  // namespace tenon::abi
