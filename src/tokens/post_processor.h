// The field "post_processor": adds special tokens around a text.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tokens/json_fields.h"

namespace tenon::tokens {

using PostProcessor = std::function<void(std::vector<int64_t>&)>;

// Rejects ids for which `is_token` returns false.
PostProcessor post_processor_of(const Json& value, const std::function<bool(int64_t)>& is_token);

}  // namespace tenon::tokens
