// The bit-exact comparator: values, layout, history and memory sharing.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace tenon::test {

// First difference in words, or nothing. Values are compared byte by byte.
std::string difference(const torch::Tensor& expected, const torch::Tensor& got);
std::string difference(const std::vector<torch::Tensor>& expected, const std::vector<torch::Tensor>& got, const std::string& what);

// Which tensors of a list share memory, and where: equal lists share alike.
std::vector<int64_t> sharing(const std::vector<torch::Tensor>& tensors);

torch::Tensor generator_state();

}  // namespace tenon::test
