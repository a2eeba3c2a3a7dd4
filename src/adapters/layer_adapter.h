// The effect of one adapter on one layer. Each method's mathematics is written once, in ATen ops over the tensors of the adapter's file.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/low_rank.h"

namespace tenon::adapters {

// conv1d is the layer that GPT-2 calls Conv1D: a linear layer whose weight is [in, out].
enum class LayerKind { linear, conv1d, embedding, layer_norm, rms_norm, conv2d };

// The weight and bias of a layer; the bias may be undefined.
struct Base {
  at::Tensor weight, bias;
};

inline bool requires_grad(const Base& base) {
  return (base.weight.defined() && base.weight.requires_grad()) || (base.bias.defined() && base.bias.requires_grad());
}

// A layer of the base model.
struct Layer {
  std::string path;  // The module path from the root of the model, as in PEFT.
  LayerKind kind = LayerKind::linear;
  Base base;
  int64_t stride = 1, padding = 0;
  double epsilon = 0;
  // The user's own tensors, if `base` holds aliases of them.
  Base own = {};
  bool adds_one = false;  // rms_norm: elements are multiplied by 1 + weight, in f32 (Gemma).

  bool trains() const { return requires_grad(base) || requires_grad(own); }
  bool is_linear() const { return kind == LayerKind::linear || kind == LayerKind::conv1d; }
  bool is_norm() const { return kind == LayerKind::layer_norm || kind == LayerKind::rms_norm; }
  int64_t inputs() const { return base.weight.size(kind == LayerKind::conv1d ? 0 : 1); }
  int64_t outputs() const { return base.weight.size(kind == LayerKind::conv1d ? 1 : 0); }
  // The dimension of the weight that counts outputs.
  int64_t outputs_dim() const { return kind == LayerKind::conv1d || kind == LayerKind::embedding ? 1 : 0; }
  // Reshapes a vector with one element per output so that it broadcasts over the layer's results.
  at::Tensor along_outputs(const at::Tensor& numbers) const { return kind == LayerKind::conv2d ? numbers.view({1, -1, 1, 1}) : numbers; }
  // Returns the layer with this weight and bias instead of its own.
  Layer over(const at::Tensor& weight, const std::optional<at::Tensor>& bias) const;
  at::Tensor run(const at::Tensor& x) const;
  // Gradients of `run` for linear layers and convolutions. `output_mask` says which of x, weight and bias get one.
  struct LayerGradients {
    at::Tensor x, weight, bias;
  };
  LayerGradients backward(const at::Tensor& grad, const at::Tensor& x, std::array<bool, 3> output_mask) const;
};

// Maps a parameter to the values that a layer adapter computes with.
using Constraint = std::function<at::Tensor(const at::Tensor&)>;

// Tensors hold one sample of the batch: [tokens, inputs], [tokens, outputs], ids [tokens], or images [1, channels, ...].
class LayerAdapter {
 public:
  struct TensorField {
    // The tensor's name in the file, without the layer's path. Empty if the tensor belongs to the adapter of another layer with the same
    // weight.
    std::string name;
    at::Tensor* tensor;
  };
  virtual ~LayerAdapter() = default;
  virtual std::vector<TensorField> tensor_fields() = 0;  // The tensors that the file holds.
  std::vector<std::pair<std::string, at::Tensor>> tensors() const;
  // Returns a copy that uses the given tensors, in the order of tensor_fields().
  std::shared_ptr<const LayerAdapter> with(const std::vector<at::Tensor>& tensors) const;
  // Returns a copy over cloned tensors in the layout that the kernels read fastest.
  std::shared_ptr<const LayerAdapter> prepacked_copy() const;

  // Whether its effect cannot be combined with that of others, so that no other layer adapter may act on the same sample of its layer.
  virtual bool acts_alone() const { return false; }
  // Whether it maps the base layer's result y to y plus a term that does not depend on y.
  virtual bool is_additive() const { return false; }
  virtual bool has_scale() const { return true; }
  // The method's name in error messages.
  virtual const char* method() const { return "this adapter"; }
  // Whether its result depends on the layer's own tensors other than through y.
  virtual bool uses_base(const Layer& layer) const { return replacement().has_value() || transforms_weight(layer); }
  // The tensors that replace those of the base; without a weight, only the bias is replaced.
  virtual std::optional<Base> replacement() const { return {}; }
  // Computes what all samples of a call share; the result is passed to transform_input and apply_to_output. May be undefined.
  virtual at::Tensor prepare(const Layer& layer, double factor) const { return {}; }
  // Whether it changes the layer's input, which transform_input does before the base layer runs.
  virtual bool is_input_transform() const { return false; }
  virtual at::Tensor transform_input(const at::Tensor& x, const at::Tensor& prepared, const Layer& layer) const { return x; }
  // Whether it changes the weight instead of the input, because a convolution's kernel reads several pixels at once. merged() computes that
  // weight.
  virtual bool transforms_weight(const Layer& layer) const { return false; }
  bool transforms_input(const Layer& layer) const { return is_input_transform() && !transforms_weight(layer); }
  // Whether, among several input transforms, the last one named is applied first.
  virtual bool transforms_in_reverse() const { return false; }
  // Runs after the base layer. `x` is the layer's original input, `y` the base layer's result with earlier layer adapters applied.
  virtual at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor& prepared, const Layer& layer,
                                     double factor) const = 0;
  // Whether it is a low-rank product, which has a kernel of its own (low_rank.h); low_rank() returns its factors.
  virtual bool has_low_rank() const { return false; }
  virtual LowRank low_rank(double factor) const { return {}; }
  // Returns the layer's weight and bias with this adapter merged into them.
  virtual Base merged(const Layer& layer, double factor) const = 0;

  // Whether it draws random numbers in training mode, for dropout.
  virtual bool draws_in_training() const { return false; }
  // Returns a copy that acts in one call in training mode on the samples x: it drops what it draws from the generator. The draws are those
  // of PEFT.
  virtual std::shared_ptr<const LayerAdapter> dropping(const at::Tensor& x, const Layer& layer, const at::Generator& generator) const {
    return copy();
  }
  // The probability that a call in training mode skips the whole layer adapter, so that its parameters get no gradient. nullopt if the
  // method never skips calls.
  virtual std::optional<double> skip_probability() const { return {}; }
  // The constraint of all its tensors, or an empty function. apply_to_output and transform_input compute with the constrained values, and
  // the backward writes them to the parameters, so that an optimizer continues from them.
  virtual Constraint constraint() const { return {}; }
  // Returns the layer's input, or a gradient of the same size, without the elements that this copy drops.
  virtual at::Tensor drop_input(const at::Tensor& x) const { return x; }

 protected:
  virtual std::shared_ptr<LayerAdapter> copy() const = 0;
  virtual void prepack() {}  // Puts the tensors into the layout that the kernels read fastest.
};

using LayerAdapterPointer = std::shared_ptr<const LayerAdapter>;

// Implements copy() for a layer adapter of type `Self`.
template <class Self, class Parent = LayerAdapter>
class Cloneable : public Parent {
 public:
  using Parent::Parent;

 protected:
  std::shared_ptr<LayerAdapter> copy() const override { return std::make_shared<Self>(static_cast<const Self&>(*this)); }
};

// A layer adapter that adds a matrix to the layer's weight.
class Delta : public LayerAdapter {
 public:
  bool is_additive() const override { return true; }
  at::Tensor prepare(const Layer& layer, double factor) const override;
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor& prepared, const Layer& layer,
                             double factor) const override;
  Base merged(const Layer& layer, double factor) const override;

 protected:
  // Returns the matrix: [outputs, inputs], or the shape of a convolution's weight.
  virtual at::Tensor delta(const Layer& layer) const = 0;
};

// A layer adapter that multiplies the layer's weight, viewed as [outputs, inputs * kernel size], by a matrix from the right.
class InputTransform : public LayerAdapter {
 public:
  bool has_scale() const override { return false; }
  bool uses_base(const Layer& layer) const override { return transforms_weight(layer) || output_scales().defined(); }
  bool is_additive() const override { return !output_scales().defined(); }
  bool is_input_transform() const override { return true; }
  bool transforms_weight(const Layer& layer) const override { return layer.kind == LayerKind::conv2d; }
  at::Tensor transform_input(const at::Tensor& x, const at::Tensor& prepared, const Layer& layer) const override;
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor& prepared, const Layer& layer,
                             double factor) const override;
  Base merged(const Layer& layer, double factor) const override;

 protected:
  // Multiplies x [..., inputs] by the matrix that `prepared` represents.
  virtual at::Tensor transformed(const at::Tensor& x, const at::Tensor& prepared) const = 0;
  // One factor per output, or undefined.
  virtual at::Tensor output_scales() const { return {}; }
};

// Multiplies x [..., inputs] by the block-diagonal matrix of `blocks` [count, size, size].
at::Tensor multiply_by_blocks(const at::Tensor& x, const at::Tensor& blocks);

}  // namespace tenon::adapters
