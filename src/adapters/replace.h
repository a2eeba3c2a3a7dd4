// Parts that stand in the place of something of the base: trained norms, biases, whole layers, rows of an embedding.
#pragma once

#include <string>

#include "adapters/part.h"

namespace tenon::adapters {

// `base` without a weight: the bias alone. Names are those of the file, behind the layer's path; a weight without a name does not train.
PartPointer make_replacement(Base base, std::string weight_name, std::string bias_name);

// Rows of an embedding; on a linear layer that has the embedding's weight, its outputs (`name` empty: they are the embedding's).
PartPointer make_tokens(at::Tensor ids, at::Tensor rows, std::string name);

}  // namespace tenon::adapters
