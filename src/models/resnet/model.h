// ResNet for image classification.
#pragma once

#include <tenon/family.h>

namespace tenon::models {

struct ResnetConfig {
  int64_t channels, embedding, labels;
  std::vector<int64_t> widths, depths;
  bool bottleneck, downsample_in_first_stage, downsample_in_bottleneck;
  Activation act;
};

// Reads config.json.
ResnetConfig read_resnet_config(const Fields& fields);
std::shared_ptr<Model> make_resnet(const Fields& fields, const Weights& weights);

}  // namespace tenon::models
