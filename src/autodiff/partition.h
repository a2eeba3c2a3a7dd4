// Splits a joint graph into a forward and a backward graph where the recorded backward begins. The forward
// also returns values that the backward reads ("saved"); the backward computes others again. Both graphs may
// contain dead nodes.
#pragma once

#include "autodiff/saved_values.h"
#include "ir/graph/graph.h"

namespace tenon::autodiff {

struct BackwardInput {
  bool saved = false;  // True if `index` is that of a saved value; otherwise it is that of an input of the joint graph.
  int32_t index = 0;
};

struct Partition {
  ir::Graph forward;                    // Outputs: the joint graph's first `forward_outputs`, then the saved values.
  ir::Graph backward;                   // Outputs: the other outputs of the joint graph.
  std::vector<int32_t> forward_inputs;  // Indices of inputs of the joint graph.
  std::vector<BackwardInput> backward_inputs;
};

Partition partition(const ir::Graph& joint, size_t forward_outputs, const RecomputeSettings& settings = {});

}  // namespace tenon::autodiff
