#include "adapters/hra/hra.h"
#include "base/error.h"

namespace tenon::adapters {

Loaded load_hra(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets) {
  HraConfig hra(config);
  Loaded out;
  for (size_t i : targets) {
    const Layer& layer = layers[i];
    if (layer.kind != Kind::linear && layer.kind != Kind::conv2d) refuse_layer(layer, "HRA");
    std::string name = kPrefix + layer.path + ".hra_u";
    at::Tensor directions = files.take(name, {layer.base.weight.numel() / layer.outputs(), hra.r});
    if (directions.norm(2, 0).eq(0).any().item<bool>())
      throw UserError(ErrorCode::adapter, "adapter_model.safetensors: a column of \"" + name + "\" is zero, which is no direction");
    out.parts[i] = {make_hra(directions, hra.makes_orthogonal)};
  }
  return out;
}

}  // namespace tenon::adapters
