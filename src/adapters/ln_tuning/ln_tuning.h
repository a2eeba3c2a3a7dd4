// LN tuning: the adapter replaces the weights of norms. It has no configuration and no mathematics of its own.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

LoadedAdapter load_ln_tuning(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_ln_tuning(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

}  // namespace tenon::adapters
