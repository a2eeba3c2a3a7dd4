// Reads the configuration of a ViT and maps the names of its layers to those in files.
#include <array>
#include <utility>

#include "models/vit/model.h"

namespace tenon::models {

VitConfig read_vit_config(const Fields& fields) {
  VitConfig c{};
  c.width = fields.integer("hidden_size");
  c.inner = fields.integer("intermediate_size");
  c.layers = fields.integer("num_hidden_layers", 1, 4096);
  c.heads = fields.integer("num_attention_heads", 1, 1 << 20);
  if (c.width % c.heads) fields.refuse("num_attention_heads", "does not divide hidden_size");
  c.image = fields.integer("image_size", 1, 1 << 20);
  c.patch = fields.integer("patch_size", 1, c.image);
  c.channels = fields.integer_or("num_channels", 3, 1, 1 << 20);
  c.labels = static_cast<int64_t>(fields.labels());
  c.epsilon = fields.number_or("layer_norm_eps", 1e-12, 0, 1);
  c.attention_dropout = fields.number_or("attention_probs_dropout_prob", 0, 0, 1);
  c.dropout = fields.number_or("hidden_dropout_prob", 0, 0, 1);
  c.qkv_bias = fields.boolean_or("qkv_bias", true);
  c.act = activation(fields.text_or("hidden_act", "gelu"));
  fields.ignore({"encoder_stride", "pooler_act", "pooler_output_size"});  // Only other heads use these.
  return c;
}

std::string vit_file_name(const std::string& name) {
  constexpr std::string_view layers = "vit.layers.";
  if (!name.starts_with(layers)) return name;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> names = {{{"attention.q_proj", "attention.attention.query"},
                                                                                   {"attention.k_proj", "attention.attention.key"},
                                                                                   {"attention.v_proj", "attention.attention.value"},
                                                                                   {"attention.o_proj", "attention.output.dense"},
                                                                                   {"mlp.fc1", "intermediate.dense"},
                                                                                   {"mlp.fc2", "output.dense"}}};
  std::string out = "vit.encoder.layer." + name.substr(layers.size());
  for (auto [ours, theirs] : names)
    if (size_t at = out.find(ours); at != std::string::npos) return out.replace(at, ours.size(), theirs);
  return out;
}

}  // namespace tenon::models
