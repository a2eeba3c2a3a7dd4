// Checks of what a caller gives to a model. Each throws UserError(shape) that names the argument and says what it must be.
#pragma once

#include <ATen/core/Tensor.h>

namespace tenon::models {

// ids [batch, length] of integers; mask and types, if they are defined, of the same shape.
void check_text(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types);
// For models that learn a vector for each position.
void check_length(const at::Tensor& ids, int64_t positions);
// pixels [batch, channels, height, width].
void check_pixels(const at::Tensor& pixels, int64_t channels);

}  // namespace tenon::models
