#include "adapters/boft/boft.h"
#include "base/error.h"

namespace tenon::adapters {

LoadedAdapter load_boft(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  BoftConfig boft(config);
  return chosen.load([&](const Layer& layer) {
    need_linear_or_conv(layer, "BOFT");
    int64_t in = layer.base.weight.numel() / layer.outputs(), size = boft.block_size ? boft.block_size : in / boft.block_count;
    if (size == 0 || in % size)
      throw UserError(ErrorCode::adapter,
                      layer.path + ": the size of BOFT's blocks does not divide the layer's " + std::to_string(in) + " inputs");
    std::string at = kPrefix + layer.path + ".";
    at::Tensor blocks = files.take(at + "boft_R", {1, in / size, size, size});
    bool is_conv = layer.kind == LayerKind::conv2d;
    at::Tensor scales = is_conv ? files.take(at + "boft_s", {1, layer.outputs()}) : files.take(at + "boft_s", {layer.outputs(), 1});
    return make_boft(blocks, scales);
  });
}

}  // namespace tenon::adapters
