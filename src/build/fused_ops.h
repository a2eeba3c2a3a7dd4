// Turns groups of nodes into what runs for them: machine code, or calls of a library.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "build/code_cache.h"
#include "build/native_options.h"
#include "build/quarantine.h"
#include "ir/graph/group.h"
#include "loops/lower.h"
#include "runtime/fused_op.h"

namespace tenon::build {

class NativeProgram;

// The loops of all groups that become kernels; these groups come first.
std::vector<loops::Lowered> lower_kernels(const ir::Graph& graph, const ops::Lowerings& lowerings, const std::vector<ir::Group>& groups);

// What runs for the groups of a graph, for all its sizes. Machine code, packed weights and chosen forms of weights are shared by the
// sizes.
class FusedOps {
 public:
  // Compiles the kernels. `conditions` receives those of rewrites, which are programs of their own.
  FusedOps(const ir::Graph& graph, const std::vector<ir::Group>& groups, const std::vector<loops::Lowered>& lowered,
           const NativeOptions& options, std::shared_ptr<Quarantine> quarantine, std::vector<ir::Condition>& conditions);

  // What runs with these values of the symbols; one per group.
  std::vector<runtime::FusedOp> at(const ir::SymbolValues& symbols) const;
  // Whether what runs for a group writes its results to given buffers.
  bool takes_buffers(size_t group) const;

 private:
  struct Kernel {
    CompiledKernel code, narrow;  // `narrow` has vectors of 256 bits; empty unless the tuner may choose it.
    std::vector<loops::KernelScalar> scalars;
    ir::SizeList sizes;
    ir::Size iterations, elements;
    struct Range {
      size_t input = 0;  // The operand that holds indices.
      ir::Size extent;
      std::optional<int64_t> exempt;
    };
    std::vector<Range> ranges;
  };
  struct SymbolicRewrite {
    std::shared_ptr<const NativeProgram> program;
    size_t outputs = 0;
    std::string name;
  };
  struct SymbolicProduct {
    std::shared_ptr<const runtime::ProductStep> step;
    ir::Size rows;
  };
  struct SymbolicConvolution {
    std::shared_ptr<const runtime::ConvolutionStep> step;
  };
  using Computation = std::variant<Kernel, SymbolicRewrite, SymbolicProduct, SymbolicConvolution>;
  struct GroupOp {
    Computation computation;
    std::shared_ptr<const ir::Graph> ops;  // The group's nodes, if ATen may have to compute them; otherwise null.
  };

  static Kernel make_kernel(const ir::Group& group, const loops::Lowered& lowered, CompiledKernel code, CompiledKernel narrow);
  static Computation make_computation(const ir::Graph& graph, const ir::Group& group, std::vector<ir::Condition>& conditions);
  static runtime::KernelCall make_call(const Kernel& kernel, const ir::SymbolValues& symbols, runtime::AtenOps by_aten);
  static runtime::RewriteCall make_call(const SymbolicRewrite& rewrite, const ir::SymbolValues& symbols, runtime::AtenOps by_aten);
  static runtime::ProductCall make_call(const SymbolicProduct& product, const ir::SymbolValues& symbols, runtime::AtenOps by_aten);
  static runtime::ConvolutionCall make_call(const SymbolicConvolution& convolution, const ir::SymbolValues& symbols,
                                            runtime::AtenOps by_aten);

  std::vector<GroupOp> ops_;  // One per group.
  double verified_ = 0;       // Fraction of the runs that are compared with ATen.
  std::shared_ptr<Quarantine> quarantine_;
};

}  // namespace tenon::build
