// The list of tensors that the driver passes to and receives from graphs.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tenon::driver {

using Tensors = std::vector<at::Tensor>;

}  // namespace tenon::driver
