// Trainable tokens: the adapter replaces rows of an embedding. Its mathematics is in adapters/replace.h.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

LoadedAdapter load_trainable_tokens(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_trainable_tokens(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

}  // namespace tenon::adapters
