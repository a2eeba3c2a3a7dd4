// ViT for classes of images: patches as tokens, a class token before them.
#pragma once

#include <tenon/family.h>

namespace tenon::models {

struct VitConfig {
  int64_t width, inner, layers, heads, image, patch, channels, labels;
  double epsilon, attention_dropout, dropout;
  bool qkv_bias;
  Activation act;
};

// The meaning of config.json.
VitConfig read_vit_config(const Fields& fields);
// Files keep the names that the layers had before version 5 of Transformers.
std::string vit_file_name(const std::string& name);
std::shared_ptr<Model> make_vit(const Fields& fields, const Weights& weights);

}  // namespace tenon::models
