#include "adapters/config_text.h"
#include "adapters/ln_tuning/ln_tuning.h"

namespace tenon::adapters {

void create_ln_tuning(const formats::Config&, const ChosenLayers& chosen, NewTensors& tensors) {
  chosen.for_each([&](const Layer& layer) {
    std::string at = kPrefix + layer.path + ".ln_tuning_layers.";
    tensors.put_copy(at + "weight", layer.base.weight);
    if (layer.base.bias.defined()) tensors.put_copy(at + "bias", layer.base.bias);
  });
}

}  // namespace tenon::adapters

namespace tenon {

std::string to_json(const LNTuningConfig& config) { return adapters::config_text(adapters::shared_fields("LN_TUNING", config)); }

}  // namespace tenon
