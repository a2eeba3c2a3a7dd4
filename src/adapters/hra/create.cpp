#include <ATen/ops/repeat_interleave.h>

#include "adapters/hra/hra.h"

namespace tenon::adapters {

void create_hra(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  HraFields hra(config);
  bool is_random = !config.boolean_or("init_weights", true);
  chosen.for_each([&](const Layer& layer) {
    need_linear_or_conv(layer, "HRA");
    int64_t in = layer.base.weight.numel() / layer.outputs();
    // Two equal reflections cancel each other. An odd number of them cannot.
    bool is_paired = hra.r % 2 == 0 && !is_random;
    at::Tensor u = is_paired ? at::repeat_interleave(draw_kaiming_uniform({in, hra.r / 2}), 2, 1) : draw_kaiming_uniform({in, hra.r});
    tensors.put(layer, "hra_u", u);
  });
}

}  // namespace tenon::adapters
