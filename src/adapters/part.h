// One adapter on one layer. What it computes is written once, in ops of ATen over the tensors of its file.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/low_rank.h"

namespace tenon::adapters {

enum class Kind { linear, turned_linear, embedding, layer_norm, rms_norm, conv2d };  // turned_linear: GPT-2's Conv1D, [in, out]

// What a layer computes with; the bias may be undefined.
struct Base {
  at::Tensor weight, bias;
};

inline bool asks(const Base& base) {
  return (base.weight.defined() && base.weight.requires_grad()) || (base.bias.defined() && base.bias.requires_grad());
}

// A layer of the base model.
struct Layer {
  std::string path;  // from the model down, as PEFT has it
  Kind kind = Kind::linear;
  Base base;
  int64_t stride = 1, padding = 0;
  double epsilon = 0;
  Base own = {};  // as the user's program has them, if these are other tensors over the same memory

  bool trains() const { return asks(base) || asks(own); }
  bool is_linear() const { return kind == Kind::linear || kind == Kind::turned_linear; }
  bool is_norm() const { return kind == Kind::layer_norm || kind == Kind::rms_norm; }
  int64_t inputs() const { return base.weight.size(kind == Kind::turned_linear ? 0 : 1); }
  int64_t outputs() const { return base.weight.size(kind == Kind::turned_linear ? 1 : 0); }
  int64_t outputs_dim() const { return kind == Kind::turned_linear || kind == Kind::embedding ? 1 : 0; }  // of the weight
  // One number an output, so that it can be multiplied with results.
  at::Tensor along_outputs(const at::Tensor& numbers) const { return kind == Kind::conv2d ? numbers.view({1, -1, 1, 1}) : numbers; }
  // The layer, with these tensors in the place of its own.
  Layer over(const at::Tensor& weight, const std::optional<at::Tensor>& bias) const;
  at::Tensor run(const at::Tensor& x) const;
  // Of `run`, for linear layers and convolutions: those of x, weight and bias that are asked for.
  struct Gradients {
    at::Tensor x, weight, bias;
  };
  Gradients backward(const at::Tensor& grad, const at::Tensor& x, std::array<bool, 3> asks) const;
};

// Rows are those of one element of the batch: [tokens, inputs] or [tokens, outputs], ids [tokens], images [1, channels, ...].
class Part {
 public:
  struct Slot {
    std::string name;  // behind the layer's path; empty: the tensor of another part, on a layer with the same weight
    at::Tensor* tensor;
  };
  virtual ~Part() = default;
  virtual std::vector<Slot> slots() = 0;  // what stands in the file
  std::vector<std::pair<std::string, at::Tensor>> tensors() const;
  // The same over other tensors, in the order of `slots`.
  std::shared_ptr<const Part> with(const std::vector<at::Tensor>& tensors) const;
  // The same over copies, which lie as they are used fastest.
  std::shared_ptr<const Part> settled() const;

  // True: its result is not a sum with others', so that no other part may act on the same row of its layer.
  virtual bool acts_alone() const { return false; }
  // True: what it makes of the base layer's result y is y and something that does not depend on y.
  virtual bool adds() const { return false; }
  virtual bool has_scale() const { return true; }
  // What errors call it.
  virtual const char* method() const { return "this adapter"; }
  // Whether its result depends on the layer's own tensors otherwise than by y.
  virtual bool uses_base(const Layer& layer) const { return replaced().has_value() || turns_weight(layer); }
  // Tensors of the base in whose place it stands; without a weight, the bias alone.
  virtual std::optional<Base> replaced() const { return {}; }
  // What is computed once for all rows of a call, if anything; turn and finish are given it.
  virtual at::Tensor ready(const Layer& layer, double factor) const { return {}; }
  // Before the base layer.
  virtual bool turns() const { return false; }
  virtual at::Tensor turn(const at::Tensor& x, const at::Tensor& ready, const Layer& layer) const { return x; }
  // True: it turns the weight instead, since the layer sees several places at once; `merged` says how.
  virtual bool turns_weight(const Layer& layer) const { return false; }
  bool turns_input(const Layer& layer) const { return turns() && !turns_weight(layer); }
  // Of several, whether the last one named is the first to turn.
  virtual bool turns_in_reverse() const { return false; }
  // Behind it: `x` as the layer was given it, `y` the base layer's result or what earlier parts made of it.
  virtual at::Tensor finish(const at::Tensor& y, const at::Tensor& x, const at::Tensor& ready, const Layer& layer, double factor) const = 0;
  // Whether it is a sum of low rank, for which there is a loop of our own; and that sum, of its own tensors.
  virtual bool has_low_rank() const { return false; }
  virtual LowRank low_rank(double factor) const { return {}; }
  // The layer's own weights with this part in them.
  virtual Base merged(const Layer& layer, double factor) const = 0;

 protected:
  virtual std::shared_ptr<Part> copy() const = 0;
  virtual void settle() {}  // lays its tensors
};

using PartPointer = std::shared_ptr<const Part>;

// How a part of type `Self` is copied.
template <class Self, class Under = Part>
class PartOf : public Under {
 public:
  using Under::Under;

 protected:
  std::shared_ptr<Part> copy() const override { return std::make_shared<Self>(static_cast<const Self&>(*this)); }
};

// A part that adds a matrix to the layer's weight.
class Delta : public Part {
 public:
  bool adds() const override { return true; }
  at::Tensor ready(const Layer& layer, double factor) const override;
  at::Tensor finish(const at::Tensor& y, const at::Tensor& x, const at::Tensor& ready, const Layer& layer, double factor) const override;
  Base merged(const Layer& layer, double factor) const override;

 protected:
  // [outputs, inputs], or the shape of a convolution's weight.
  virtual at::Tensor delta(const Layer& layer) const = 0;
};

// A part that multiplies the layer's weight, seen as [outputs, inputs of all places of a kernel], by a matrix from the right.
class Turn : public Part {
 public:
  bool has_scale() const override { return false; }
  bool uses_base(const Layer& layer) const override { return turns_weight(layer) || outputs().defined(); }
  bool adds() const override { return !outputs().defined(); }
  bool turns() const override { return true; }
  bool turns_weight(const Layer& layer) const override { return layer.kind == Kind::conv2d; }
  at::Tensor turn(const at::Tensor& x, const at::Tensor& ready, const Layer& layer) const override;
  at::Tensor finish(const at::Tensor& y, const at::Tensor& x, const at::Tensor& ready, const Layer& layer, double factor) const override;
  Base merged(const Layer& layer, double factor) const override;

 protected:
  // [..., inputs] turned, by what `ready` holds.
  virtual at::Tensor turned(const at::Tensor& x, const at::Tensor& ready) const = 0;
  // One factor an output; undefined: none.
  virtual at::Tensor outputs() const { return {}; }
};

// x [..., inputs] times a matrix of blocks [count, size, size] along its diagonal.
at::Tensor turn_blocks(const at::Tensor& x, const at::Tensor& blocks);

}  // namespace tenon::adapters
