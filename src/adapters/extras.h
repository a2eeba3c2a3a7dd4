// What an adapter of any method may bring besides its own parts: trained biases, whole layers, tokens.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

// Before the method's own parts, in the order in which they act.
void take_extras(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets,
                 Loaded& loaded);

}  // namespace tenon::adapters
