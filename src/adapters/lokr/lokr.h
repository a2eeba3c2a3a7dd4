// LoKr: the weight's change is a Kronecker product of two matrices, each whole or of low rank.
#pragma once

#include "adapters/loha/loha.h"

namespace tenon::adapters {

struct LokrConfig : LycorisConfig {
  explicit LokrConfig(const formats::Config& config);
  // A number as a product of two, as PEFT factors it: by decompose_factor first if that divides the number, else the smaller first and as
  // near to each other as decompose_factor lets them be.
  std::pair<int64_t, int64_t> factors(int64_t number) const;

  bool decompose_both;
  int64_t decompose_factor;
};

// Whole, or a times b, or over the places of a kernel.
struct LokrFactor {
  at::Tensor whole, a, b, t;
  at::Tensor product() const;
};
PartPointer make_lokr(LokrFactor first, LokrFactor second, double scale);
Loaded load_lokr(const formats::Config& config, Files& files, const Chosen& chosen);

}  // namespace tenon::adapters
