// The text of PEFT's print_trainable_parameters.
#pragma once

#include <tenon/models.h>

#include <string>
#include <vector>

#include "adapters/table.h"

namespace tenon::adapters {

// `base` are the parameters of the base, `adapters` all adapters of its bank; `trained` is the number of their elements that are trained.
std::string trainable_summary(const std::vector<NamedTensor>& base, const std::vector<AdapterPointer>& adapters, int64_t trained);

}  // namespace tenon::adapters
