// What the readers of Llama's relatives share.
#pragma once

#include <functional>
#include <optional>

#include "models/llama/model.h"

namespace tenon::models {

// Differences between the configurations of families: the values of missing fields, and which fields there are.
struct DecoderDefaults {
  std::optional<int64_t> kv_heads = {};   // As many as heads if empty.
  std::optional<int64_t> head_size = {};  // hidden_size / num_attention_heads if empty.
  bool tied = false;
  bool has_attention_bias = true;  // Whether the field attention_bias exists.
  bool has_one_rope = true;        // Whether all layers have the same rotary embeddings.
};

// Reads the fields that all families have. All layers have the window, but there is none.
LlamaConfig read_decoder(const Fields& fields, const DecoderDefaults& defaults);

// Reads one set of parameters of rotary embeddings. `base` is used if rope_theta is missing.
Rope read_rope(const Fields& given, double base);

// Reads the window, and which layers have it, from sliding_window and layer_types. `is_windowed` says which ones do if layer_types is
// missing.
void read_windows(const Fields& fields, LlamaConfig& config, const std::function<bool(int64_t)>& is_windowed);

}  // namespace tenon::models
