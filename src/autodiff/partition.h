// Cuts a joint graph into a forward and a backward graph at the recorded border. The forward
// returns what the backward reads ("saved"); views are taken again instead of saved. Both still
// hold nodes that nobody reads.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::autodiff {

struct BackwardInput {
  bool saved = false;  // `index` counts saved values, else inputs of the joint graph
  int32_t index = 0;
};

struct Partition {
  ir::Graph forward;                    // outputs: the joint graph's first `forward_outputs`, then the saved values
  ir::Graph backward;                   // outputs: the rest
  std::vector<int32_t> forward_inputs;  // inputs of the joint graph
  std::vector<BackwardInput> backward_inputs;
};

Partition partition(const ir::Graph& joint, size_t forward_outputs);

}  // namespace tenon::autodiff
