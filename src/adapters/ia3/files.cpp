#include "adapters/ia3/ia3.h"

namespace tenon::adapters {

LoadedAdapter load_ia3(const formats::Config& config, Files& files, const ChosenLayers& chosen) {
  Ia3Fields ia3(config);
  return chosen.load([&](const Layer& layer) {
    return make_ia3(files.take(kPrefix + layer.path + ".ia3_l", ia3.sizes(layer)), ia3.is_feed_forward(layer.path));
  });
}

}  // namespace tenon::adapters
