// What the driver needs of libtorch's autograd: differentiating a recorded run without firing the
// user's hooks twice, and looking at an autograd graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::driver {

using Tensors = std::vector<at::Tensor>;

// torch::autograd::grad with unused inputs allowed. Stops at the inputs: their hooks do not run and
// what lies behind them gets nothing, since the engine that called us goes on there with what we
// give back. The graph is kept: that engine may have to pass through it too.
Tensors differentiate(const Tensors& outputs, const Tensors& inputs, const Tensors& tangents, bool create_graph);

// What stands between the outputs and the boundary tensors.
struct AutogradGraph {
  std::vector<std::string> obstacles;  // nodes that running the ops under autograd would not make again
  bool spent = false;                  // some node of it ran already and let go of its saved tensors
  bool dead_end = false;               // some node of it leads nowhere
};
AutogradGraph inspect(const Tensors& outputs, const Tensors& boundary, const std::unordered_map<const void*, bool>& nodes_run);

}  // namespace tenon::driver
