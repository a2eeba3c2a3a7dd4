// A tiny training for the tests of this folder: a network with dropout, whose loss falls within a few steps.
#pragma once

#include <tenon/trainer.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace tenon::test {

// Examples of a linear function, the same in each process.
struct LinearExamples : Dataset {
  explicit LinearExamples(int64_t count) {
    auto generator = at::detail::createCPUGenerator(5);
    x = torch::randn({count, 4}, generator);
    y = x.sum(1, /*keepdim=*/true) * 0.5 + 1;
  }
  size_t size() const override { return static_cast<size_t>(x.size(0)); }
  std::vector<torch::Tensor> batch(const std::vector<size_t>& indices) const override {
    torch::Tensor rows = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    return {x.index_select(0, rows), y.index_select(0, rows)};
  }
  torch::Tensor x, y;
};

inline torch::nn::Sequential tiny_network() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(4, 64), torch::nn::Dropout(0.1), torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})),
                               torch::nn::Linear(64, 1));
}

inline TrainingTask tiny_task(torch::nn::Sequential network) {
  return module_task(network, [network](const std::vector<torch::Tensor>& batch) mutable {
    return torch::mse_loss(network->forward(batch[0]), batch[1]);
  });
}

// The contents of all files in a directory and below, by relative path.
inline std::map<std::string, std::string> contents_of(const std::filesystem::path& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    out[std::filesystem::relative(entry.path(), directory).string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return out;
}

}  // namespace tenon::test
