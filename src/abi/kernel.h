// How compiled kernels are called. Plain data, since both sides are built apart.
#pragma once

#include <cstdint>

namespace tenon::abi {

struct KernelArguments {
  void* const* buffers;  // first elements, in the order of the kernel's buffers
  const int64_t* sizes;  // extents and strides, in elements
  const double* scalars;
};

// Runs the iterations [begin, end) of the parallel loop, flattened (its last variable runs fastest).
// `arguments` is a KernelArguments. Calls for ranges that do not overlap may run side by side.
using KernelFunction = void (*)(int64_t begin, int64_t end, void* arguments);

}  // namespace tenon::abi
