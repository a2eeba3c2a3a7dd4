#include "adapters/ia3/ia3.h"
#include "base/error.h"

namespace tenon::adapters {

LoadedAdapter load_ia3(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  Ia3Config ia3(config);
  return chosen.load([&](const Layer& layer) {
    if (layer.kind == LayerKind::embedding || layer.is_norm()) refuse_layer(layer, "IA3");
    bool forward = ia3.is_feed_forward(layer.path);
    int64_t count = forward ? layer.inputs() : layer.outputs();
    std::vector<int64_t> sizes = layer.kind == LayerKind::conv2d ? std::vector<int64_t>{1, count, 1, 1}
                                 : forward                       ? std::vector<int64_t>{1, count}
                                                                 : std::vector<int64_t>{count, 1};
    return make_ia3(files.take(kPrefix + layer.path + ".ia3_l", sizes), forward);
  });
}

}  // namespace tenon::adapters
