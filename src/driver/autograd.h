// Helpers over libtorch's autograd: differentiating a recorded run without firing the user's hooks
// twice, and inspecting an autograd graph.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "build/tensors.h"

namespace tenon::driver {

// torch::autograd::grad with unused inputs allowed. It stops at the inputs: their hooks do not run and the nodes behind them get
// nothing, because the calling engine continues there with the returned gradients. The autograd graph is retained, because that
// engine may have to pass through it too.
Tensors differentiate(const Tensors& outputs, const Tensors& inputs, const Tensors& tangents, bool create_graph);

// Properties of the autograd graph between the outputs and the boundary tensors.
struct AutogradFindings {
  std::vector<std::string> obstacles;  // Nodes that running the ops again under autograd would not rebuild.
  bool spent = false;                  // Some node ran already and released its saved tensors.
  bool dead_end = false;               // Some node has no next edge.
};
AutogradFindings inspect(const Tensors& outputs, const Tensors& boundary, const std::unordered_map<const void*, bool>& nodes_run);

}  // namespace tenon::driver
