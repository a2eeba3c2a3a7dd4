// The field "normalizer": rewrites a text before it is split into words.
#pragma once

#include <functional>

#include "tokens/json_fields.h"
#include "tokens/text_segment.h"

namespace tenon::tokens {

using Normalizer = std::function<void(Normalized&)>;

Normalizer normalizer_of(const Json& value);

}  // namespace tenon::tokens
