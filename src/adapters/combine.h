// Combines several adapters into a new one, as PEFT's add_weighted_adapter does.
#pragma once

#include <tenon/adapters.h>

#include "adapters/table.h"

namespace tenon::adapters {

struct WeightedAdapter {
  AdapterPointer adapter;
  double weight;
};

// Supports LoRA (without DoRA and lora_bias, which have no weighted sum) and IA3. Throws UserError for other methods.
AdapterPointer combine(const std::string& name, const std::vector<WeightedAdapter>& of, const Combination& how,
                       const std::vector<Layer>& layers);

}  // namespace tenon::adapters
