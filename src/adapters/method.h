// What a method of PEFT's has to offer: its configuration, and the parts that an adapter of it has on layers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "adapters/files.h"
#include "adapters/part.h"
#include "formats/config.h"

namespace tenon::adapters {

// An adapter as it comes from its directory: parts by the index of the layer.
struct Loaded {
  std::map<size_t, std::vector<PartPointer>> parts;
  std::vector<std::pair<std::string, at::Tensor>> shared;  // tensors of the file that belong to no layer alone, by their whole names
};

// `targets` are indices of layers that the configuration chooses. Reads all fields that change what is computed.
using LoadMethod = Loaded (*)(const formats::Config& config, Files& files, const std::vector<Layer>& layers,
                              const std::vector<size_t>& targets);

// For patterns, which must match one of them.
std::vector<std::string> paths_of(const std::vector<Layer>& layers, const std::vector<size_t>& targets);

// The method has no meaning on such a layer.
[[noreturn]] void refuse_layer(const Layer& layer, const std::string& method);

// By `peft_type`; refuses others by name.
LoadMethod find_method(const std::string& peft_type);

}  // namespace tenon::adapters
