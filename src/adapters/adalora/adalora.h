// AdaLoRA: LoRA with a factor a rank, of which training takes some away.
#pragma once

#include <map>

#include "adapters/method.h"

namespace tenon::adapters {

struct AdaloraConfig {
  explicit AdaloraConfig(const formats::Config& config);
  int64_t rank(const std::string& path) const;

  int64_t first_rank;
  double scale;
  std::map<std::string, int64_t> left;  // of the ranks, by path; empty: all
};

PartPointer make_adalora(at::Tensor a, at::Tensor e, at::Tensor b, double scale);
Loaded load_adalora(const formats::Config& config, Files& files, const std::vector<Layer>& layers, const std::vector<size_t>& targets);

}  // namespace tenon::adapters
