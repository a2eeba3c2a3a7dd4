// A causal model of Tenon's Llama family with random weights, so that a benchmark needs no files.
#pragma once

#include <tenon/family.h>
#include <torch/torch.h>

#include <memory>
#include <string>

#include "models/llama/model.h"

namespace tenon::bench {

// Draws the weights of a model instead of reading them from files.
struct RandomWeights : Weights::Source {
  bool has(const std::string&) override { return true; }
  at::Tensor take(const std::string&, at::IntArrayRef sizes) override {
    return sizes.size() == 1 ? torch::ones(sizes) : torch::randn(sizes) * 0.02;
  }
};

// Seeds the default generator, so that equal arguments give equal models.
inline std::shared_ptr<CausalModel> make_causal_model(int64_t layers, int64_t width, int64_t heads, int64_t vocabulary) {
  torch::manual_seed(1);
  models::LlamaConfig config{};
  config.vocabulary = vocabulary, config.width = width, config.inner = 3 * width, config.layers = layers;
  config.heads = heads, config.kv_heads = heads / 4, config.head_size = width / heads, config.positions = 8192;
  config.epsilon = 1e-6, config.act = activation("silu");
  config.windowed.assign(static_cast<size_t>(layers), true);  // The same as read_llama; without a window this changes nothing.
  return std::make_shared<models::Llama>(config, Weights(std::make_shared<RandomWeights>()));
}

}  // namespace tenon::bench
