#include "adapters/hra/hra.h"
#include "base/error.h"

namespace tenon::adapters {

LoadedAdapter load_hra(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  HraFields hra(config);
  return chosen.load([&](const Layer& layer) {
    need_linear_or_conv(layer, "HRA");
    std::string name = kPrefix + layer.path + ".hra_u";
    at::Tensor directions = files.take(name, {layer.base.weight.numel() / layer.outputs(), hra.r});
    if (directions.norm(2, 0).eq(0).any().item<bool>())
      throw UserError(ErrorCode::adapter, "adapter_model.safetensors: a column of \"" + name + "\" is zero, so it has no direction");
    return make_hra(directions, hra.makes_orthogonal);
  });
}

}  // namespace tenon::adapters
