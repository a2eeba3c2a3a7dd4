// A random module with hidden state, and the actions that a random walk takes on it.
#pragma once

#include <torch/torch.h>

#include <random>
#include <string>
#include <vector>

namespace tenon::walks {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Random = std::mt19937_64;

struct Layer {
  enum class Kind { linear, norm, batch_norm, dropout, scale, branch, repeat, counter, cache, pointer, item, choice, count };
  Kind kind = Kind::linear;
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d batch_norm{nullptr};
  Tensor buffer, kept;
  Tensors choices;
  double number = 1.5;
  int times = 1;
  bool flag = false, training = true;
  int runs = 0;

  Layer(Kind kind, Random& random);
  Tensor forward(Tensor x);
  Tensors tensors() const;  // all that it holds
};

struct Walker {
  std::vector<Layer> layers;

  explicit Walker(Random& random);
  Tensor forward(const Tensor& x);
  Tensors parameters() const;
  Tensors state() const;
};

// Where a call happens.
struct Surroundings {
  bool grad = true, autocast = false, inference = false, backward_inside = false;
  bool wide = false, transposed = false, offset = false, requires_grad = false;
  bool keep_gradients = false;
};

// Does one random thing to both, which are alike; returns what it was.
std::string act(Random& random, Walker& a, Walker& b, Surroundings& where);

}  // namespace tenon::walks
