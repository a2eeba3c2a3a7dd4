#include "runtime/kernel_step.h"

#include <c10/util/SmallVector.h>
#include <torch/csrc/stable/c/shim.h>

#include "base/error.h"

namespace tenon::runtime {

void run(const KernelStep& step, c10::ArrayRef<void*> memory, c10::ArrayRef<double> scalars) {
  c10::SmallVector<double, 4> numbers;
  for (int32_t which : step.scalars) numbers.push_back(scalars[which]);
  for (const KernelStep::Launch& launch : step.launches) {
    c10::SmallVector<void*, 8> buffers;
    for (size_t i = 0; i < memory.size(); ++i) buffers.push_back(static_cast<char*>(memory[i]) + launch.offsets[i]);
    abi::KernelArguments arguments{buffers.data(), launch.sizes.data(), numbers.data()};
    if (launch.iterations <= launch.grain) step.function(0, launch.iterations, &arguments);
    // at::parallel_for would be serial here: it is compiled into the caller, without OpenMP.
    else if (torch_parallel_for(0, launch.iterations, launch.grain, step.function, &arguments) != 0)
      throw InternalError("a kernel failed on libtorch's threads");
  }
}

}  // namespace tenon::runtime
