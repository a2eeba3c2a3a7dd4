// ViT for image classification: patches are tokens, with a class token before them.
#pragma once

#include <tenon/family.h>

namespace tenon::models {

struct VitConfig {
  int64_t width, inner, layers, heads, image, patch, channels, labels;
  double epsilon, attention_dropout, dropout;
  bool qkv_bias;
  Activation act;
};

// Reads config.json.
VitConfig read_vit_config(const Fields& fields);
// Maps a layer's name to the one in files, which keep the names from before Transformers 5.
std::string vit_file_name(const std::string& name);
std::shared_ptr<Model> make_vit(const Fields& fields, const Weights& weights);

}  // namespace tenon::models
