// What a method of PEFT's has to offer: its configuration, and the parts that an adapter of it has on layers.
#pragma once

#include <tenon/adapters.h>

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
  std::map<std::string, std::string> repeated;             // Names of tensors that the file holds a second time, and of the first ones.
};

// The layers that a configuration chooses, of all that there are.
struct Chosen {
  const std::vector<Layer>& layers;
  const std::vector<size_t>& indices;
  Unmatched unmatched = Unmatched::refuse;  // What is done about patterns that match none of them.

  // With the part that `make` has for each layer.
  template <class Make>
  Loaded load(Make make) const {
    Loaded out;
    for (size_t i : indices) out.parts[i] = {make(layers[i])};
    return out;
  }
  std::vector<std::string> paths() const;  // for patterns, which must match one of them
};

// Reads all fields that change what is computed.
using LoadMethod = Loaded (*)(const formats::Config& config, Files& files, const Chosen& chosen);

// The method has no meaning on such a layer.
[[noreturn]] void refuse_layer(const Layer& layer, const std::string& method);
// For methods that know nothing else.
void need_linear_or_conv(const Layer& layer, const std::string& method);

// By `peft_type`; refuses others by name.
LoadMethod find_method(const std::string& peft_type);

}  // namespace tenon::adapters
