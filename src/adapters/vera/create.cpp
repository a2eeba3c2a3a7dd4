#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "adapters/vera/vera.h"

namespace tenon::adapters {

void create_vera(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  VeraFields vera(config);
  bool is_random = !config.boolean_or("init_weights", true);
  double initial = config.number_or("d_initial", 0.1, -1e9, 1e9);
  if (vera.saves_projections) {
    auto [a, b] = make_projections(vera, chosen);
    tensors.put_base("base_model.vera_A", a);
    tensors.put_base("base_model.vera_B", b);
  }
  chosen.for_each([&](const Layer& layer) {
    at::Tensor lambda_d = draw_randn({vera.r});
    tensors.put(layer, "vera_lambda_d", is_random ? lambda_d : at::full({vera.r}, initial));
    tensors.put(layer, "vera_lambda_b", is_random ? at::ones({layer.outputs()}) : at::zeros({layer.outputs()}));
  });
}

}  // namespace tenon::adapters
