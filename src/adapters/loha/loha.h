// LoHa: the weight's change is the elementwise product of two low-rank matrices.
#pragma once

#include "adapters/loha/dropout.h"
#include "adapters/method.h"
#include "adapters/targets.h"

namespace tenon::adapters {

// The configuration that LoHa and LoKr share.
struct LycorisFields {
  explicit LycorisFields(const formats::Config& config);
  int64_t rank(const std::string& path) const { return static_cast<int64_t>(ranks.of(path, static_cast<double>(r))); }
  double scale(const std::string& path) const { return alphas.of(path, alpha) / static_cast<double>(rank(path)); }
  // Whether the factors of a convolution are separate from its kernel.
  bool is_effective(const Layer& layer) const {
    return layer.kind == LayerKind::conv2d && effective_conv && layer.base.weight.size(2) * layer.base.weight.size(3) > 1;
  }

  int64_t r;
  double alpha, rank_dropout, module_dropout;
  bool effective_conv;
  Patterns ranks, alphas;
};

// Computes a convolution's weight: out[p, q, k, l] = sum t[i, j, k, l] a[i, p] b[j, q].
at::Tensor over_kernel(const at::Tensor& t, const at::Tensor& a, const at::Tensor& b);

// One of the two matrices: a times b, or over_kernel(t, a, b) if t is defined.
struct LohaFactor {
  at::Tensor a, b, t;
  at::Tensor product() const;
};
LayerAdapterPointer make_loha(LohaFactor first, LohaFactor second, double scale, LycorisDropout dropout);
LoadedAdapter load_loha(const formats::Config& config, Files& files, const ChosenLayers& chosen);
void create_loha(const formats::Config& config, const ChosenLayers& chosen, NewTensors& tensors);

}  // namespace tenon::adapters
