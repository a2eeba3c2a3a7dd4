// LoRA and its variants: rsLoRA, a bias on B, ranks and scales per layer, DoRA.
#pragma once

#include <tenon/adapter_configs.h>

#include <nlohmann/json_fwd.hpp>

#include "adapters/method.h"
#include "adapters/targets.h"

namespace tenon::adapters {

struct LoraFields {
  explicit LoraFields(const formats::Config& config);
  int64_t rank(const std::string& path) const { return static_cast<int64_t>(ranks.of(path, static_cast<double>(r))); }
  double scale(const std::string& path) const;

  int64_t r;
  double alpha, dropout;
  bool rslora, dora, bias_on_b;
  Patterns ranks, alphas;
};

// Takes the layer's tensors from the file, including DoRA's magnitude.
LayerAdapterPointer make_lora(const LoraFields& config, Files& files, const Layer& layer);

LoadedAdapter load_lora(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_lora(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

// Whether the text is PEFT's "gaussian", in any case.
bool is_gaussian(const std::string& init_lora_weights);
// All fields of LoRA, which AdaLoRA has too.
nlohmann::ordered_json lora_json(const char* peft_type, const LoraConfig& config);

}  // namespace tenon::adapters
