// PEFT's directories: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "adapters/files.h"
#include "adapters/table.h"

namespace tenon::adapters {

// Refuses unknown fields, and tensors that are missing, left over, of another shape or not finite.
AdapterPointer make_adapter(const std::string& name, const std::string& config, Files files, const std::vector<Layer>& layers);
AdapterPointer read_adapter(const std::string& name, const std::string& path, const std::vector<Layer>& layers);
// By their names in the file.
std::map<std::string, at::Tensor> tensors_of(const Adapter& adapter, const std::vector<Layer>& layers);
void write_adapter(const Adapter& adapter, const std::string& path, const std::vector<Layer>& layers);

}  // namespace tenon::adapters
