// A model's arguments: checks, and what a decoder's layers need from them. Each check throws UserError(shape) that names the argument and
// states what it must be.
#pragma once

#include <tenon/causal.h>

namespace tenon::models {

// Requires integer ids [batch, length]; mask and types, if defined, must have the same shape.
void check_text(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types);
// Requires at most `positions` tokens, for models with learned position embeddings.
void check_length(const at::Tensor& ids, int64_t positions);
// Requires pixels [batch, channels, height, width].
void check_pixels(const at::Tensor& pixels, int64_t channels);

// Returns the positions and masks of a call without a cache. `mask` is [batch, length] or undefined; `type` is that of the scores.
AttentionContext context_of(const at::Tensor& ids, const at::Tensor& mask, const CausalModel::Sizes& sizes, at::ScalarType type);

}  // namespace tenon::models
