#pragma once

#include <cstdint>

namespace tenon::train {

inline constexpr int64_t kIgnoredLabel = -100;  // Transformers' label of tokens that are not predicted.

}  // namespace tenon::train
