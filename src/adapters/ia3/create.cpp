#include <ATen/ops/ones_like.h>

#include "adapters/ia3/ia3.h"

namespace tenon::adapters {

void create_ia3(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  Ia3Fields ia3(config);
  bool is_random = !config.boolean_or("init_ia3_weights", true);
  chosen.for_each([&](const Layer& layer) {
    at::Tensor factors = draw_randn(ia3.sizes(layer));
    tensors.put(layer, "ia3_l", is_random ? factors : at::ones_like(factors));
  });
}

}  // namespace tenon::adapters
