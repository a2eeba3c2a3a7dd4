// Reads and writes PEFT's adapter directories: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <tenon/adapters.h>

#include <map>
#include <string>
#include <vector>

#include "adapters/files.h"
#include "adapters/table.h"
#include "formats/config.h"

namespace tenon::adapters {

// Throws UserError for unknown fields, and for tensors that are missing, unused, of another shape or not finite.
AdapterPointer make_adapter(const std::string& name, const std::string& config, Files files, const std::vector<Layer>& layers,
                            const LoadOptions& options = {});
// The same for layers that were chosen before. `text` is what the adapter's file will hold.
AdapterPointer make_adapter(const std::string& name, const formats::Config& config, const std::string& text, Files files,
                            const std::vector<Layer>& layers, const std::vector<size_t>& targets, Unmatched unmatched);
AdapterPointer read_adapter(const std::string& name, const std::string& path, const std::vector<Layer>& layers, const LoadOptions& options);
// Indices of the layers that a configuration chooses.
std::vector<size_t> choose_layers(const formats::Config& config, const std::vector<Layer>& layers, Unmatched unmatched);
// Returns the adapter's tensors by their names in the file.
std::map<std::string, at::Tensor> tensors_of(const Adapter& adapter, const std::vector<Layer>& layers);
void write_adapter(const Adapter& adapter, const std::string& path, const std::vector<Layer>& layers);

}  // namespace tenon::adapters
