#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "adapters/boft/boft.h"

namespace tenon::adapters {

void create_boft(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  BoftFields boft(config);
  bool is_random = !config.boolean_or("init_weights", true);
  chosen.for_each([&](const Layer& layer) {
    auto [count, size] = boft.blocks(layer);
    std::vector<int64_t> blocks = {1, count, size, size}, scales = {layer.outputs(), 1};
    if (layer.kind == LayerKind::conv2d) scales = {1, layer.outputs()};
    tensors.put(layer, "boft_R", is_random ? draw_normal(blocks, 0, 0.1) : at::zeros(blocks));
    tensors.put(layer, "boft_s", is_random ? draw_normal(scales, 1, 0.1) : at::ones(scales));
  });
}

}  // namespace tenon::adapters
