// Creates adapters as PEFT's get_peft_model does: completes the configuration, chooses layers, draws the tensors, and loads them from
// memory as if they came from a file.
#pragma once

#include <tenon/adapters.h>

#include <string>
#include <vector>

#include "adapters/config_text.h"
#include "adapters/host.h"
#include "adapters/method.h"
#include "adapters/table.h"

namespace tenon::adapters {

// `config` is the text of an adapter_config.json in which fields may be missing.
AdapterPointer create_adapter(const std::string& name, const std::string& config, const std::vector<Layer>& layers, const ModelFacts& model,
                              const LoadOptions& options);

// The steps of create_adapter that have a file of their own.

// Fills in the layers that PEFT chooses by itself: those of its tables, "all-linear", the heads of the task. Sorts lists that are sets in
// PEFT, and replaces 20 or more targets by the shortest names that choose the same layers. Throws UserError if there is no default.
void resolve_targets(OrderedJson& config, const std::vector<Layer>& layers, const ModelFacts& model);

// Adds what a file of PEFT has besides the method's own tensors: copies of layers, biases, whole embeddings, and tokens. `name` is the
// adapter's.
void add_copies(const formats::Config& config, const std::string& name, const ChosenLayers& chosen, const ModelFacts& model,
                NewTensors& tensors);

}  // namespace tenon::adapters
