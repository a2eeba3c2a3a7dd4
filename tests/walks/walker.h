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
  double factor = 1.5;
  int times = 1;
  bool flag = false, training = true;
  int runs = 0;

  Layer(Kind kind, Random& random);
  Tensor forward(Tensor x);
  Tensors tensors() const;  // Parameters, buffers and cached tensors.
};

struct Walker {
  std::vector<Layer> layers;

  explicit Walker(Random& random);
  Tensor forward(const Tensor& x);
  Tensors parameters() const;
  Tensors state() const;
};

// Global modes of a call, and properties of its argument.
struct CallContext {
  bool grad = true, autocast = false, inference = false, backward_inside = false;
  bool wide = false, transposed = false, offset = false, requires_grad = false;
  bool keep_gradients = false;
};

// Applies one random action to both modules, which have equal state. Returns its description.
std::string act(Random& random, Walker& a, Walker& b, CallContext& context);

}  // namespace tenon::walks
