#include "runtime/kernel_step.h"

#include <c10/util/SmallVector.h>
#include <torch/csrc/stable/c/shim.h>

#include "base/error.h"

namespace tenon::runtime {

void run(const KernelStep& step, c10::ArrayRef<void*> memory, c10::ArrayRef<double> scalars) {
  c10::SmallVector<double, 4> numbers;
  for (auto [which, known] : step.numbers) numbers.push_back(which < 0 ? known : scalars[which]);
  abi::KernelArguments arguments{memory.data(), step.sizes.data(), numbers.data()};
  if (step.iterations <= step.grain) step.function(0, step.iterations, &arguments);
  // at::parallel_for would be serial here: it is compiled into the caller, without OpenMP.
  else if (torch_parallel_for(0, step.iterations, step.grain, step.function, &arguments) != 0)
    throw InternalError("a kernel failed on libtorch's threads");
}

}  // namespace tenon::runtime
