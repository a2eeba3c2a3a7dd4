// Layer adapters that replace something of the base: trained norms, biases, whole layers, rows of an embedding.
#pragma once

#include <string>

#include "adapters/layer_adapter.h"

namespace tenon::adapters {

// Replaces the layer's tensors, or only its bias if `base` has no weight. Names are those of the file, without the layer's path; a weight
// with an empty name is not trained.
LayerAdapterPointer make_replacement(Base base, std::string weight_name, std::string bias_name);

// Replaces the rows `ids` of an embedding or, on a linear layer, the outputs `ids`. `name` is empty if the layer shares the weight, and so
// the trained rows, of an embedding.
LayerAdapterPointer make_tokens(at::Tensor ids, at::Tensor rows, std::string name);

}  // namespace tenon::adapters
