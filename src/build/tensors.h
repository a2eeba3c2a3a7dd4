// The list of tensors that graphs take and return.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tenon {

using Tensors = std::vector<at::Tensor>;

}  // namespace tenon
