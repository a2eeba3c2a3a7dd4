#include "adapters/ln_tuning/ln_tuning.h"
#include "adapters/replace.h"

namespace tenon::adapters {

LoadedAdapter load_ln_tuning(const formats::Config&, Files& files, const ChosenLayers& chosen) {
  return chosen.load([&](const Layer& layer) {
    const std::string weight = "ln_tuning_layers.weight", bias = "ln_tuning_layers.bias";
    Base base{files.take(kPrefix + layer.path + "." + weight, layer.base.weight.sizes()), {}};
    if (layer.base.bias.defined()) base.bias = files.take(kPrefix + layer.path + "." + bias, layer.base.bias.sizes());
    return make_replacement(base, weight, bias);
  });
}

}  // namespace tenon::adapters
