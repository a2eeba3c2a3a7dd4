// Tensors that an adapter of any method may have in addition: trained biases, copies of whole layers, trained tokens.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

// Adds the layer adapters of these tensors to `loaded`. They act before the method's own, in the order in which they are added.
void take_extras(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets,
                 LoadedAdapter& loaded);

}  // namespace tenon::adapters
