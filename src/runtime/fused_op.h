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
  std::shared_ptr<const ProductStep> product;  // Shared by all sizes of the graph.
  int64_t rows = 0;                            // Rows of the left operand.
  AtenOps by_aten;                             // Computes the result if a GELU cannot be fused; empty without a GELU.
};

struct ConvolutionCall {
  std::shared_ptr<const ConvolutionStep> convolution;  // Shared by all sizes of the graph.
  AtenOps by_aten;                                     // Computes the result if oneDNN cannot.
};

struct FusedOp {
  std::variant<KernelCall, RewriteCall, ProductCall, ConvolutionCall> call;
  // Called with the inputs and outputs after each run; may be empty.
  std::function<void(c10::ArrayRef<at::Tensor>, c10::ArrayRef<at::Tensor>, c10::ArrayRef<double>)> check;

  const KernelCall* kernel() const { return std::get_if<KernelCall>(&call); }
  const ProductCall* product() const { return std::get_if<ProductCall>(&call); }
};

}  // namespace tenon::runtime
