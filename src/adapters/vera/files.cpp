#include <algorithm>

#include "adapters/vera/vera.h"

namespace tenon::adapters {

Loaded load_vera(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets) {
  VeraConfig vera(config);
  int64_t inputs = 0, outputs = 0;
  for (size_t i : targets) {
    if (layers[i].kind != Kind::linear && layers[i].kind != Kind::turned_linear) refuse_layer(layers[i], "VeRA");
    inputs = std::max(inputs, layers[i].inputs());
    outputs = std::max(outputs, layers[i].outputs());
  }
  Loaded out;
  at::Tensor a, b;
  if (vera.saves_projections) {
    a = files.take("base_model.vera_A", {vera.r, inputs}), b = files.take("base_model.vera_B", {outputs, vera.r});
  } else {
    std::tie(a, b) = make_projections(vera, inputs, outputs);
  }
  a = a.t().contiguous().t(), b = b.t().contiguous().t();  // as the loop for low ranks reads them
  if (vera.saves_projections) out.shared = {{"base_model.vera_A", a}, {"base_model.vera_B", b}};
  for (size_t i : targets) {
    std::string at = kPrefix + layers[i].path + ".";
    at::Tensor lambda_b = files.take(at + "vera_lambda_b", {layers[i].outputs()});
    out.parts[i] = {make_vera({a, b, lambda_b, files.take(at + "vera_lambda_d", {vera.r})})};
  }
  return out;
}

}  // namespace tenon::adapters
