// The random numbers of one call of a layer in training mode, as a tensor of fixed size that the backward receives. It holds the state of
// the generator before the draws, from which they can be repeated. As long as its memory exists, the masks that were drawn are found by its
// address; a copy of the tensor has only the state.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "adapters/layer_adapter.h"

namespace tenon::adapters {

// The layer adapters of each set of a call with what they drew, in the order of the set. Empty for sets that draw nothing.
using DroppingSets = std::vector<std::vector<LayerAdapterPointer>>;
using DroppingSetsPointer = std::shared_ptr<const DroppingSets>;
// Draws the masks of all sets from the generator.
using DrawMasks = std::function<DroppingSets(const at::Generator&)>;

int64_t draws_size();        // The number of bytes of the tensor.
at::Tensor make_no_draws();  // Returns the tensor of a call that draws nothing.
// Draws from libtorch's default generator. Other threads draw before or after all of it.
std::pair<at::Tensor, DroppingSetsPointer> make_draws(const DrawMasks& draw);
// Returns what was drawn; null for a call that drew nothing.
DroppingSetsPointer find_draws(const at::Tensor& draws, const DrawMasks& draw);

}  // namespace tenon::adapters
