// A new adapter out of several, as PEFT's add_weighted_adapter makes one.
#pragma once

#include <tenon/adapters.h>

#include "adapters/table.h"

namespace tenon::adapters {

struct Weighted {
  AdapterPointer adapter;
  double weight;
};

// LoRA without relatives that have no sum, or IA3 alone; others are refused.
AdapterPointer combine(const std::string& name, const std::vector<Weighted>& of, const Combination& how, const std::vector<Layer>& layers);

}  // namespace tenon::adapters
