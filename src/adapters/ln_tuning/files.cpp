#include "adapters/ln_tuning/ln_tuning.h"
#include "adapters/replace.h"

namespace tenon::adapters {

Loaded load_ln_tuning(const formats::Config&, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets) {
  Loaded out;
  for (size_t i : targets) {
    const Layer& layer = layers[i];
    const std::string weight = "ln_tuning_layers.weight", bias = "ln_tuning_layers.bias";
    Base base{files.take(kPrefix + layer.path + "." + weight, layer.base.weight.sizes()), {}};
    if (layer.base.bias.defined()) base.bias = files.take(kPrefix + layer.path + "." + bias, layer.base.bias.sizes());
    out.parts[i] = {make_replacement(base, weight, bias)};
  }
  return out;
}

}  // namespace tenon::adapters
