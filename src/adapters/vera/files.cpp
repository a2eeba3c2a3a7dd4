#include <algorithm>

#include "adapters/vera/vera.h"

namespace tenon::adapters {

std::pair<int64_t, int64_t> vera_sizes(const ChosenLayers& chosen) {
  int64_t inputs = 0, outputs = 0;
  chosen.for_each([&](const Layer& layer) {
    if (!layer.is_linear()) refuse_layer(layer, "VeRA");
    inputs = std::max(inputs, layer.inputs());
    outputs = std::max(outputs, layer.outputs());
  });
  return {inputs, outputs};
}

LoadedAdapter load_vera(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  VeraFields vera(config);
  auto [inputs, outputs] = vera_sizes(chosen);
  auto [a, b] = vera.saves_projections ? std::pair{files.take_column_major("base_model.vera_A", vera.r, inputs),
                                                   files.take_column_major("base_model.vera_B", outputs, vera.r)}
                                       : make_projections(vera, chosen);
  LoadedAdapter out = chosen.load([&, a = a, b = b](const Layer& layer) {
    std::string at = kPrefix + layer.path + ".";
    at::Tensor lambda_b = files.take(at + "vera_lambda_b", {layer.outputs()});
    return make_vera({a, b, lambda_b, files.take(at + "vera_lambda_d", {vera.r})}, vera.dropout);
  });
  if (vera.saves_projections) out.shared = {{"base_model.vera_A", a}, {"base_model.vera_B", b}};
  return out;
}

}  // namespace tenon::adapters
