// The fields of adapter_config.json that LoHa and LoKr share.
#pragma once

#include "adapters/config_text.h"

namespace tenon::adapters {

template <class C>
OrderedJson lycoris_json(const char* peft_type, const C& config) {
  OrderedJson out = shared_fields(peft_type, config);
  out["r"] = config.r;
  out["alpha"] = json_of(config.alpha);
  out["rank_dropout"] = config.rank_dropout;
  out["module_dropout"] = config.module_dropout;
  out["use_effective_conv2d"] = config.use_effective_conv2d;
  out["rank_pattern"] = json_of(config.rank_pattern);
  out["alpha_pattern"] = json_of(config.alpha_pattern);
  return out;
}

}  // namespace tenon::adapters
