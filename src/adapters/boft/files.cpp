#include "adapters/boft/boft.h"
#include "base/error.h"

namespace tenon::adapters {

Loaded load_boft(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets) {
  BoftConfig boft(config);
  Loaded out;
  for (size_t i : targets) {
    const Layer& layer = layers[i];
    if (layer.kind != Kind::linear && layer.kind != Kind::conv2d) refuse_layer(layer, "BOFT");
    int64_t in = layer.base.weight.numel() / layer.outputs(), size = boft.block_size ? boft.block_size : in / boft.block_count;
    if (size == 0 || in % size)
      throw UserError(ErrorCode::adapter, layer.path + ": BOFT's blocks do not divide its " + std::to_string(in) + " inputs");
    std::string at = kPrefix + layer.path + ".";
    at::Tensor blocks = files.take(at + "boft_R", {1, in / size, size, size});
    bool is_conv = layer.kind == Kind::conv2d;
    at::Tensor scales = is_conv ? files.take(at + "boft_s", {1, layer.outputs()}) : files.take(at + "boft_s", {layer.outputs(), 1});
    out.parts[i] = {make_boft(blocks, scales)};
  }
  return out;
}

}  // namespace tenon::adapters
