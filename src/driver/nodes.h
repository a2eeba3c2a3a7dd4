// The autograd nodes that represent a compiled function in libtorch's autograd graph.
#pragma once

#include <memory>
#include <vector>

#include "driver/recording.h"
#include "driver/variant.h"

namespace tenon::driver {

// Called after a recorded run: replaces the results by tensors whose history is a node of ours. When a gradient reaches the node,
// it differentiates the run's own autograd graph, and records the first such backward. `inputs` are the differentiable externals.
void attach_recorded_node(const std::shared_ptr<Recording>& recording, const std::vector<at::Tensor>& inputs,
                          const detail::TensorPointers& results);

// Called after a graph has served a call: gives the differentiable results their history. `externals` are the tensors of this call,
// `saved` the values that the forward graph saved for the backward graph, if there is one. `generator_state` is the state of the
// random generator before the call, if the variant is random and can be run again.
void attach_history(const std::shared_ptr<const Variant>& variant, c10::SmallVectorImpl<at::Tensor>& results,
                    const std::vector<at::Tensor>& externals, std::vector<at::Tensor> saved, at::Tensor generator_state);

}  // namespace tenon::driver
