// Writes safetensors files that are byte-identical to those of the Python package.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "formats/directory.h"
#include "formats/tensor_view.h"

namespace tenon::formats {

// Writes the file atomically and without copying the tensors. Errors in the tensors (size, repeated name) are
// UserError(format), errors of the disk are UserError(file).
void write_safetensors(const Directory& directory, const std::string& name, std::span<const TensorView> tensors,
                       const std::optional<Metadata>& metadata);

}  // namespace tenon::formats
