#include <ATen/ops/zeros.h>

#include "adapters/adalora/adalora.h"

namespace tenon::adapters {

namespace {

void check_schedule(const formats::Config& config, const AdaloraFields& adalora) {
  if (adalora.total_step == 0) config.fail("total_step", "is missing. Set it to the number of training steps");
  if (adalora.tinit >= adalora.total_step - adalora.tfinal)
    config.fail("tinit", "and tfinal leave no steps in which ranks are pruned. Decrease them, or increase total_step");
  if (config.has("rank_pattern"))
    config.fail("rank_pattern", "is the result of pruning. Remove it from the configuration of a new adapter");
}

}  // namespace

void create_adalora(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  AdaloraFields adalora(config);
  check_schedule(config, adalora);
  bool is_random = !config.boolean_or("init_lora_weights", true);
  int64_t r = adalora.first_rank;
  chosen.for_each([&](const Layer& layer) {
    if (layer.kind == LayerKind::embedding || layer.is_norm()) refuse_layer(layer, "AdaLoRA");
    int64_t in = layer.base.weight.numel() / layer.outputs();
    at::Tensor a = draw_randn({r, in}), e = draw_randn({r, 1}), b = draw_randn({layer.outputs(), r});
    draw_randn({1});  // PEFT's rank counter, which is not saved.
    if (!is_random) {
      e = at::zeros({r, 1});
      a = draw_normal({r, in}, 0, 0.02);
      b = draw_normal({layer.outputs(), r}, 0, 0.02);
    }
    tensors.put(layer, "lora_A", a);
    tensors.put(layer, "lora_E", e);
    tensors.put(layer, "lora_B", b);
  });
}

}  // namespace tenon::adapters
