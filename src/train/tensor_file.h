// Tensors by name in safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace tenon::train {

using TensorsByName = std::map<std::string, at::Tensor>;

// Writes a file of a directory atomically. Throws UserError(file) if it cannot.
void write_tensors(const std::string& directory, const std::string& name, const TensorsByName& tensors);
// Reads all tensors of a file. Throws UserError if the file is missing or malformed.
TensorsByName read_tensors(const std::string& directory, const std::string& name);
// Copies a tensor of a file that `source` names to `target`. Throws UserError(format) if it is missing or of another type or shape.
void copy_tensor(const TensorsByName& tensors, const std::string& name, const std::string& source, const at::Tensor& target);

}  // namespace tenon::train
