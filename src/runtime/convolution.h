// A convolution at its place in a graph, with what follows it: weights are packed once for oneDNN, batch
// norm is part of them, and an addition and ReLU are computed with the result.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ir/graph/group.h"
#include "runtime/packs.h"

namespace tenon::runtime {

class Convolution {
 public:
  explicit Convolution(ir::Convolution what) : what_(std::move(what)) {}
  const ir::Convolution& what() const { return what_; }
  // How many of the inputs behind the image are weights.
  size_t weights() const { return 1 + (what_.has_bias ? 1 : 0) + (what_.has_norm ? 4 : 0); }
  double epsilon(c10::ArrayRef<double> scalars) const;

  // One weight and one bias, if there is any, that do what all of them do.
  struct Folded {
    at::Tensor weight, bias;
  };
  Folded fold(c10::ArrayRef<at::Tensor> weights, double epsilon) const;

  // Inputs as those of the group. Nothing if there is no pack.
  std::optional<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<double> scalars) const;

 private:
  ir::Convolution what_;
  mutable PackUse packs_;
};

}  // namespace tenon::runtime
