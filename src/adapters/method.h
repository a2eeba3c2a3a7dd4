// The interface of a PEFT method: it reads its configuration, makes the layer adapters of an adapter, and draws the tensors of a new one.
#pragma once

#include <tenon/adapters.h>

#include <map>
#include <string>
#include <vector>

#include "adapters/files.h"
#include "adapters/layer_adapter.h"
#include "adapters/new_tensors.h"
#include "formats/config.h"

namespace tenon::adapters {

// An adapter as loaded from its directory, with its layer adapters by the index of the layer.
struct LoadedAdapter {
  std::map<size_t, std::vector<LayerAdapterPointer>> layer_adapters;
  std::vector<std::pair<std::string, at::Tensor>> shared;  // Tensors of the file that do not belong to a single layer, by their full names.
  std::map<std::string, std::string> repeated;             // Maps each tensor that the file holds twice to the name of its first copy.
};

// All layers of the model, and the indices of those that a configuration chooses.
struct ChosenLayers {
  const std::vector<Layer>& layers;
  const std::vector<size_t>& indices;
  Unmatched unmatched = Unmatched::refuse;  // Determines how patterns that match none of the layers are reported.

  // Loads an adapter with the layer adapter that `make` returns for each chosen layer.
  template <class Make>
  LoadedAdapter load(Make make) const {
    LoadedAdapter out;
    for (size_t i : indices) out.layer_adapters[i] = {make(layers[i])};
    return out;
  }
  // Calls `f` for each chosen layer, in the order of registration, which is PEFT's.
  template <class F>
  void for_each(F f) const {
    for (size_t i : indices) f(layers[i]);
  }
  std::vector<std::string> paths() const;  // The paths of the chosen layers.
};

// Limit of ranks in adapter_config.json. Safety limit, not measured.
inline constexpr int64_t kMaxAdapterRank = 1 << 16;

// Loads an adapter. Must read all fields that change what is computed.
using LoadMethod = LoadedAdapter (*)(const formats::Config& config, Files& files, const ChosenLayers& chosen);
// Draws the tensors of a new adapter for each chosen layer, with the draws of PEFT in PEFT's order.
using CreateMethod = void (*)(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);
struct Method {
  LoadMethod load;
  CreateMethod create;
  std::string (*default_config)();  // Returns the text of a configuration with all fields.
};

// A list of the names that the paths of layers end with, for error messages.
std::string layer_names(const std::vector<Layer>& layers);

// Throws UserError because the method does not support this kind of layer.
[[noreturn]] void refuse_layer(const Layer& layer, const std::string& method);
// Refuses all layers but linear layers and convolutions.
void need_linear_or_conv(const Layer& layer, const std::string& method);

// Finds a method by `peft_type`; throws UserError if it is not supported.
const Method& find_method(const std::string& peft_type);

}  // namespace tenon::adapters
