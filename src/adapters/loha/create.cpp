#include <ATen/ops/zeros.h>

#include "adapters/loha/loha.h"

namespace tenon::adapters {

void create_loha(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  LycorisFields loha(config);
  bool is_random = !config.boolean_or("init_weights", true);
  chosen.for_each([&](const Layer& layer) {
    need_linear_or_conv(layer, "LoHa");
    auto sizes = layer.base.weight.sizes();
    int64_t r = loha.rank(layer.path), out = sizes[0], in = layer.base.weight.numel() / out;
    bool is_effective = loha.is_effective(layer);
    std::vector<int64_t> a = {out, r}, b = {r, in};
    if (is_effective) a = {r, out}, b = {r, sizes[1]};
    tensors.put(layer, "hada_w1_a", draw_kaiming_uniform(a));
    tensors.put(layer, "hada_w1_b", draw_kaiming_uniform(b));
    tensors.put(layer, "hada_w2_a", draw_kaiming_uniform(a));
    tensors.put(layer, "hada_w2_b", is_random ? draw_kaiming_uniform(b) : at::zeros(b));
    if (!is_effective) return;
    for (const char* name : {"hada_t1", "hada_t2"}) tensors.put(layer, name, draw_kaiming_uniform({r, r, sizes[2], sizes[3]}));
  });
}

}  // namespace tenon::adapters
