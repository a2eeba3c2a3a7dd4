#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "adapters/oft/oft.h"

namespace tenon::adapters {

namespace {

// Returns the divisor of `inputs` that is nearest to `wanted`, the smaller one of two.
int64_t nearest_divisor(int64_t inputs, int64_t wanted) {
  if (wanted >= inputs) return inputs;
  int64_t higher = wanted, lower = wanted;
  while (inputs % higher != 0) ++higher;
  while (inputs % lower != 0) --lower;
  return wanted - lower <= higher - wanted ? lower : higher;
}

}  // namespace

void create_oft(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors) {
  OftFields oft(config);
  if ((oft.block_size == 0) == (oft.block_count == 0)) config.fail("oft_block_size", "and r: exactly one of them must be 0");
  bool is_random = !config.boolean_or("init_weights", true);
  chosen.for_each([&](const Layer& layer) {
    need_oft_layer(layer);
    int64_t given = oft.block_size ? oft.block_size : oft.block_count, used = nearest_divisor(layer.inputs(), given);
    if (used != given)
      TORCH_WARN(layer.path, ": ", oft.block_size ? "oft_block_size " : "r ", given, " does not divide the layer's ", layer.inputs(),
                 " inputs, so ", used, " is used");
    int64_t size = oft.block_size ? used : layer.inputs() / used, count = layer.inputs() / size;
    std::vector<int64_t> sizes = {oft.shares_block ? 1 : count, size * (size - 1) / 2};
    tensors.put(layer, "oft_R.weight", is_random ? draw_normal(sizes, 0, 0.1) : at::zeros(sizes));
  });
}

}  // namespace tenon::adapters
