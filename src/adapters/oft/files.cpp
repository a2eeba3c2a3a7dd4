#include <cmath>

#include "adapters/oft/oft.h"
#include "base/error.h"

namespace tenon::adapters {

void need_oft_layer(const Layer& layer) {
  need_linear_or_conv(layer, "OFT");
  if (layer.kind == LayerKind::conv2d && layer.base.weight.size(2) * layer.base.weight.size(3) != 1)
    throw UserError(ErrorCode::adapter, layer.path +
                                            ": OFT on a kernel larger than 1 x 1 is not supported, because PEFT's forward and merge "
                                            "disagree there. Remove it from target_modules.");
}

LoadedAdapter load_oft(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  OftFields oft(config);
  return chosen.load([&](const Layer& layer) {
    need_oft_layer(layer);
    std::string name = kPrefix + layer.path + ".oft_R.weight";
    at::Tensor upper = files.take_any_shape(name);
    auto elements = upper.dim() == 2 ? upper.size(1) : 0;
    auto size = static_cast<int64_t>(std::lround((1 + std::sqrt(1 + 8 * static_cast<double>(elements))) / 2));
    bool fits = upper.dim() == 2 && size * (size - 1) / 2 == elements && layer.inputs() % size == 0 &&
                upper.size(0) == (oft.shares_block ? 1 : layer.inputs() / size);
    if (!fits) throw UserError(ErrorCode::adapter, "adapter_model.safetensors: the shape of \"" + name + "\" does not fit the layer");
    return make_oft(upper, layer.inputs(), oft);
  });
}

}  // namespace tenon::adapters
