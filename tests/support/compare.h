// Bitwise comparison of tensors: values, layout, requires_grad and memory sharing.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace tenon::test {

// Describes the first difference, or returns an empty string. Values are compared byte by byte.
std::string difference(const torch::Tensor& expected, const torch::Tensor& got);
std::string difference(const std::vector<torch::Tensor>& expected, const std::vector<torch::Tensor>& got, const std::string& what);

// Describes which tensors of a list share memory, and at which offsets. Two lists share memory alike if the results are equal.
std::vector<int64_t> sharing(const std::vector<torch::Tensor>& tensors);

torch::Tensor generator_state();

}  // namespace tenon::test
