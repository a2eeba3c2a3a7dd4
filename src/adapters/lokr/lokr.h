// LoKr: the weight's change is a Kronecker product of two matrices, each of full or of low rank.
#pragma once

#include "adapters/loha/loha.h"

namespace tenon::adapters {

struct LokrConfig : LycorisConfig {
  explicit LokrConfig(const formats::Config& config);
  // Factors a size into two as PEFT does: decompose_factor comes first if it divides the size; otherwise the smaller factor comes first,
  // and both are as close to each other as decompose_factor permits.
  std::pair<int64_t, int64_t> factors(int64_t number) const;

  bool decompose_both;
  int64_t decompose_factor;
};

// One of the two matrices: `whole`, or a times b, or over_kernel(t, a, b).
struct LokrFactor {
  at::Tensor whole, a, b, t;
  at::Tensor product() const;
};
LayerAdapterPointer make_lokr(LokrFactor first, LokrFactor second, double scale);
LoadedAdapter load_lokr(const formats::Config& config, Files& files, const ChosenLayers& chosen);

}  // namespace tenon::adapters
