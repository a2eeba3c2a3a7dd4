#include "runtime/kernel_call.h"

#include <c10/util/SmallVector.h>

#include "base/error.h"
#include "bridge/parallel.h"

namespace tenon::runtime {

void run(const KernelCall& kernel, c10::ArrayRef<void*> memory, c10::ArrayRef<double> scalars) {
  c10::SmallVector<double, 4> values;
  for (auto [index, constant] : kernel.scalars) values.push_back(index < 0 ? constant : scalars[index]);
  abi::KernelArguments arguments{memory.data(), kernel.sizes.data(), values.data()};
  const KernelCode& code = kernel.codes[kernel.code->load(std::memory_order_relaxed)];
  if (kernel.iterations <= code.grain) code.function(0, kernel.iterations, &arguments);
  else bridge::parallel_for(0, kernel.iterations, code.grain, [&](int64_t begin, int64_t end) { code.function(begin, end, &arguments); });
}

namespace {

template <class T>
bool is_in_range(const KernelCall::IndexCheck& range, const at::Tensor& indices) {
  const T* at = indices.const_data_ptr<T>();
  bool ok = true;
  if (!range.exempt) {
    for (int64_t i = 0; i < indices.numel(); ++i) ok &= at[i] >= 0 && at[i] < range.extent;
  } else {
    for (int64_t i = 0; i < indices.numel(); ++i) ok &= (at[i] >= 0 && at[i] < range.extent) || at[i] == *range.exempt;
  }
  return ok;
}

}  // namespace

bool are_in_range(const KernelCall& kernel, c10::ArrayRef<at::Tensor> inputs) {
  return std::all_of(kernel.ranges.begin(), kernel.ranges.end(), [&](const KernelCall::IndexCheck& range) {
    at::Tensor indices = inputs[range.input].contiguous();
    if (indices.scalar_type() == at::kInt) return is_in_range<int32_t>(range, indices);
    return is_in_range<int64_t>(range, indices.to(at::kLong));
  });
}

}  // namespace tenon::runtime
