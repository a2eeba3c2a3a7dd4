// LN tuning: norms with weights of their own. There is nothing to configure, and nothing to compute besides.
#pragma once

#include "adapters/method.h"

namespace tenon::adapters {

Loaded load_ln_tuning(const formats::Config& config, Files& files, const Chosen& chosen);

}  // namespace tenon::adapters
