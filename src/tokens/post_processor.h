// The field "post_processor": the special tokens around a text.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tokens/fields.h"

namespace tenon::tokens {

using PostProcessor = std::function<void(std::vector<int64_t>&)>;

// Ids that `is_token` does not know are refused.
PostProcessor post_processor_of(const Json& value, const std::function<bool(int64_t)>& is_token);

}  // namespace tenon::tokens
