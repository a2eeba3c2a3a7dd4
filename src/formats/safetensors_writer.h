// Writes safetensors files with the very bytes that the Python package writes for the same tensors.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "formats/directory.h"
#include "formats/tensor_view.h"

namespace tenon::formats {

// The file appears whole or not at all; tensors go to the disk from where they lie. Faults of the tensors (size,
// repeated name) are UserError(format), those of the disk UserError(file).
void write_safetensors(const Directory& directory, const std::string& name, std::span<const TensorView> tensors,
                       const std::optional<Metadata>& metadata);

}  // namespace tenon::formats
