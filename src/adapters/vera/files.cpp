#include <algorithm>

#include "adapters/vera/vera.h"

namespace tenon::adapters {

LoadedAdapter load_vera(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  VeraConfig vera(config);
  int64_t inputs = 0, outputs = 0;
  for (size_t i : chosen.indices) {
    const Layer& layer = chosen.layers[i];
    if (!layer.is_linear()) refuse_layer(layer, "VeRA");
    inputs = std::max(inputs, layer.inputs());
    outputs = std::max(outputs, layer.outputs());
  }
  auto [a, b] = vera.saves_projections ? std::pair{files.take_column_major("base_model.vera_A", vera.r, inputs),
                                                   files.take_column_major("base_model.vera_B", outputs, vera.r)}
                                       : make_projections(vera, inputs, outputs);
  LoadedAdapter out = chosen.load([&, a = a, b = b](const Layer& layer) {
    std::string at = kPrefix + layer.path + ".";
    at::Tensor lambda_b = files.take(at + "vera_lambda_b", {layer.outputs()});
    return make_vera({a, b, lambda_b, files.take(at + "vera_lambda_d", {vera.r})});
  });
  if (vera.saves_projections) out.shared = {{"base_model.vera_A", a}, {"base_model.vera_B", b}};
  return out;
}

}  // namespace tenon::adapters
