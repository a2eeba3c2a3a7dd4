// What runs for a node `tenon::fused`: one type per kind.
#pragma once

#include <variant>

#include "runtime/convolution.h"
#include "runtime/kernel_call.h"
#include "runtime/product.h"

namespace tenon::runtime {

// Other ops that compute the same outputs faster.
struct RewriteCall {
  AtenOps run;
};

struct ProductCall {
  std::shared_ptr<const ProductStep> product;
  AtenOps by_aten;  // Computes the result if a GELU cannot be fused; empty without a GELU.
};

struct ConvolutionCall {
  std::shared_ptr<const ConvolutionStep> convolution;
  AtenOps by_aten;  // Computes the result if oneDNN cannot.
};

struct FusedOp {
  std::variant<KernelCall, RewriteCall, ProductCall, ConvolutionCall> call;
  // Called with the inputs and outputs after each run; may be empty.
  std::function<void(c10::ArrayRef<at::Tensor>, c10::ArrayRef<at::Tensor>, c10::ArrayRef<double>)> check;

  const KernelCall* kernel() const { return std::get_if<KernelCall>(&call); }
  const ProductStep* product() const {
    const auto* found = std::get_if<ProductCall>(&call);
    return found ? found->product.get() : nullptr;
  }
};

}  // namespace tenon::runtime
