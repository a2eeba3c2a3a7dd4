// The autograd nodes that stand for a compiled function in libtorch's autograd graph.
#pragma once

#include <memory>
#include <vector>

#include "driver/recording.h"
#include "driver/variant.h"

namespace tenon::driver {

// After a recorded run: puts a node of ours over the results, in place. When a gradient comes
// through it, the run's own autograd graph is differentiated, and the first time this is recorded.
// `inputs` are the differentiable externals.
void lead_through_node(const std::shared_ptr<Recording>& recording, const std::vector<at::Tensor>& inputs,
                       const detail::TensorPlaces& results);

// After a graph has answered: gives the differentiable results their history. `externals` are the
// tensors of this call, `saved` what the forward graph kept for the backward graph (if there is one), `generator_state` that of
// the random generator before the call, if the variant is random and can be run again.
void attach_history(const std::shared_ptr<const Variant>& variant, c10::SmallVectorImpl<at::Tensor>& results,
                    const std::vector<at::Tensor>& externals, std::vector<at::Tensor> saved, at::Tensor generator_state);

}  // namespace tenon::driver
