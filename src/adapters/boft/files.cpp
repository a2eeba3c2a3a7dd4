#include "adapters/boft/boft.h"

namespace tenon::adapters {

LoadedAdapter load_boft(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  BoftFields boft(config);
  return chosen.load([&](const Layer& layer) {
    auto [count, size] = boft.blocks(layer);
    std::string at = kPrefix + layer.path + ".";
    at::Tensor blocks = files.take(at + "boft_R", {1, count, size, size});
    bool is_conv = layer.kind == LayerKind::conv2d;
    at::Tensor scales = is_conv ? files.take(at + "boft_s", {1, layer.outputs()}) : files.take(at + "boft_s", {layer.outputs(), 1});
    return make_boft(blocks, scales, boft.dropout);
  });
}

}  // namespace tenon::adapters
