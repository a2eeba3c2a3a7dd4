// LoKr: the weight's change is a Kronecker product of two matrices, each of full or of low rank.
#pragma once

#include "adapters/loha/loha.h"

namespace tenon::adapters {

// The sizes of a layer's tensors, empty for tensors that it does not have: each matrix is one tensor, or a product of two or three.
struct LokrShape {
  std::vector<int64_t> first, first_a, first_b, second, second_a, second_b, second_t;
};

struct LokrFields : LycorisFields {
  explicit LokrFields(const formats::Config& config);
  LokrShape shape(const Layer& layer) const;
  // Factors a size into two as PEFT does: decompose_factor comes first if it divides the size; otherwise the smaller factor comes first,
  // and both are as close to each other as decompose_factor permits.
  std::pair<int64_t, int64_t> factors(int64_t number) const;

  bool decompose_both;
  int64_t decompose_factor;
  bool scales_dropout;
};

// One of the two matrices: `whole`, or a times b, or over_kernel(t, a, b).
struct LokrFactor {
  at::Tensor whole, a, b, t;
  at::Tensor product() const;
};
LayerAdapterPointer make_lokr(LokrFactor first, LokrFactor second, double scale, LycorisDropout dropout);
LoadedAdapter load_lokr(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_lokr(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

}  // namespace tenon::adapters
