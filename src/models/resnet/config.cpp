// Reads the configuration of a ResNet.
#include "models/resnet/model.h"

namespace tenon::models {

ResnetConfig read_resnet_config(const Fields& fields) {
  ResnetConfig c{};
  c.channels = fields.integer_or("num_channels", 3, 1, 1 << 20);
  c.embedding = fields.integer("embedding_size", 1, 1 << 20);
  c.labels = static_cast<int64_t>(fields.labels());
  c.widths = fields.integers("hidden_sizes");
  c.depths = fields.integers("depths");
  if (c.widths.empty() || c.widths.size() != c.depths.size())
    fields.refuse("depths", "must have one number for each stage of hidden_sizes");
  std::string type = fields.text_or("layer_type", "bottleneck");
  if (type != "bottleneck" && type != "basic") fields.refuse("layer_type", "is neither \"basic\" nor \"bottleneck\"");
  c.bottleneck = type == "bottleneck";
  c.downsample_in_first_stage = fields.boolean_or("downsample_in_first_stage", false);
  c.downsample_in_bottleneck = fields.boolean_or("downsample_in_bottleneck", false);
  c.act = activation(fields.text_or("hidden_act", "relu"));
  fields.ignore({"out_features", "out_indices", "stage_names"});  // Only backbones use these.
  return c;
}

}  // namespace tenon::models
