// A convolution of a graph with its epilogue: weights are prepacked for oneDNN, batch norm is folded into them, and an addition and
// ReLU are fused.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ir/graph/group.h"
#include "runtime/packs.h"

namespace tenon::runtime {

class ConvolutionStep {
 public:
  explicit ConvolutionStep(ir::Convolution what) : what_(std::move(what)) {}
  const ir::Convolution& what() const { return what_; }
  // Number of weights; these inputs follow the image.
  size_t weights() const { return 1 + (what_.has_bias ? 1 : 0) + (what_.has_norm ? 4 : 0); }
  double epsilon(c10::ArrayRef<double> scalars) const;

  // Weight and bias with batch norm folded in. The bias is undefined if there is none.
  struct Folded {
    at::Tensor weight, bias;
  };
  Folded fold(c10::ArrayRef<at::Tensor> weights, double epsilon) const;

  // `inputs` are those of the group. Returns nullopt if oneDNN cannot be used or the weights cannot be packed.
  std::optional<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<double> scalars) const;

 private:
  ir::Convolution what_;
  mutable PackUse packs_;
};

}  // namespace tenon::runtime
