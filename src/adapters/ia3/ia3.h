// IA3: one trained factor an output, or an input of feed-forward layers.
#pragma once

#include "adapters/method.h"
#include "adapters/targets.h"

namespace tenon::adapters {

struct Ia3Config {
  explicit Ia3Config(const formats::Config& config);
  bool is_feed_forward(const std::string& path) const;

  Names feed_forward;
};

PartPointer make_ia3(at::Tensor factors, bool is_feed_forward);
Loaded load_ia3(const formats::Config& config, Files& files, const Chosen& chosen);

}  // namespace tenon::adapters
