// LoRA and its relatives by configuration: rsLoRA, a bias on B, ranks and scales by layer; DoRA.
#pragma once

#include "adapters/method.h"
#include "adapters/targets.h"

namespace tenon::adapters {

struct LoraConfig {
  explicit LoraConfig(const formats::Config& config);
  int64_t rank(const std::string& path) const { return static_cast<int64_t>(ranks.of(path, static_cast<double>(r))); }
  double scale(const std::string& path) const;

  int64_t r;
  double alpha;
  bool rslora, dora, bias_on_b;
  Patterns ranks, alphas;
};

// Tensors of the file are taken, and those of `dora`.
PartPointer make_lora(const LoraConfig& config, Files& files, const Layer& layer);

Loaded load_lora(const formats::Config& config, Files& files, const Chosen& chosen);

}  // namespace tenon::adapters
