// The field "normalizer": what happens to a text before anything looks for words in it.
#pragma once

#include <functional>

#include "tokens/fields.h"
#include "tokens/piece.h"

namespace tenon::tokens {

using Normalizer = std::function<void(Normalized&)>;

Normalizer normalizer_of(const Json& value);

}  // namespace tenon::tokens
