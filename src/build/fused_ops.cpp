#include "build/fused_ops.h"

#include <algorithm>
#include <cstdlib>

#include "base/counters.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/warn.h"
#include "build/code_cache.h"
#include "build/describe.h"
#include "build/kernel_check.h"

namespace tenon::build {
namespace {

// Minimum number of elements per thread: at::internal::GRAIN_SIZE, as in eager, or TENON_GRAIN.
int64_t grain() {
  static const char* wanted = flag_text(Flag::grain);
  return wanted ? std::max(1LL, std::atoll(wanted)) : 32768;
}

// TENON_CHECK_KERNELS, set by tests, compares every run of every kernel with ATen.
bool checks_all() {
  static const bool wanted = is_set(Flag::check_kernels);
  return wanted;
}

// Runs the ops of a group one by one in ATen.
runtime::AtenOps by_aten(const ir::Graph& graph, const ir::Group& group) {
  return [ops = interpret(ir::subgraph(graph, group))](std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) {
    return ops->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  };
}

// The versions of a kernel that the tuner chooses from: the default number of threads, another number of threads, narrower vectors.
std::vector<runtime::KernelCode> codes_of(const loops::Lowered& lowered, const CompiledKernel& code, const CompiledKernel& narrow) {
  int64_t shared = std::max<int64_t>(1, grain() * lowered.iterations / std::max<int64_t>(1, lowered.elements)), whole = lowered.iterations;
  std::vector<runtime::KernelCode> codes = {{"", code.function, code.owner, shared}};
  if (!narrow.function) return codes;
  int64_t other = whole > shared ? whole : std::max<int64_t>(1, whole / 2);
  codes.push_back({whole > shared ? "on one thread" : "on two threads", code.function, code.owner, other});
  codes.push_back({"256 bits", narrow.function, narrow.owner, shared});
  return codes;
}

runtime::KernelCall make_kernel(const ir::Graph& graph, const ir::Group& group, const loops::Lowered& lowered,
                                std::vector<runtime::KernelCode> codes) {
  runtime::KernelCall kernel{.codes = std::move(codes), .sizes = lowered.sizes, .iterations = lowered.iterations};
  for (const loops::KernelScalar& number : lowered.scalars) kernel.scalars.emplace_back(number.scalar, number.known);
  for (const ir::IndexRange& range : group.loops().index_ranges) {
    auto input = std::find(group.inputs.begin(), group.inputs.end(), range.index) - group.inputs.begin();
    kernel.ranges.push_back({static_cast<size_t>(input), range.extent, range.exempt});
  }
  if (!kernel.ranges.empty()) kernel.by_aten = by_aten(graph, group);
  return kernel;
}

std::vector<runtime::KernelCall> make_kernels(const ir::Graph& graph, const std::vector<ir::Group>& groups,
                                              const std::vector<loops::Lowered>& lowered, bool for_autotuning) {
  std::vector<CompiledKernel> codes = compile_kernels(lowered), narrow(codes.size());
  if (for_autotuning && has_wide_vectors()) narrow = compile_kernels(lowered, /*has_narrow_vectors=*/true);
  std::vector<runtime::KernelCall> out;
  for (size_t g = 0; g < lowered.size(); ++g)
    out.push_back(make_kernel(graph, groups[g], lowered[g], codes_of(lowered[g], codes[g], narrow[g])));
  return out;
}

bool is_all_true(const at::Tensor& flags) {
  at::Tensor all = flags.contiguous();
  const float* at = all.const_data_ptr<float>();
  return std::find(at, at + all.numel(), 0.0f) == at + all.numel();
}

runtime::RewriteCall make_call(const ir::Rewrite& rewrite, const ir::Graph& graph, const ir::Group& group) {
  Native native = make_native(*rewrite.graph, {}, {}, std::make_shared<Quarantine>());
  auto run = [rewritten = native.interpreter, ops = by_aten(graph, group), outputs = group.outputs.size(), name = name_of(rewrite)](
                 std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) {
    try {
      std::vector<at::Tensor> results = rewritten->run(inputs, runtime::RunMode::kernels, scalars);
      if (results.size() == outputs || is_all_true(results.back())) {
        results.resize(outputs);
        return results;
      }
    } catch (const std::exception& error) {  // The user sees the error of the program's own ops, if they fail too.
      std::vector<at::Tensor> results = ops(std::move(inputs), scalars);
      if (checks_all()) throw InternalError(std::string("a pattern fails although its ops do not: ") + error.what());
      ++counters().internal_errors;
      warn_once("pattern " + name, "a group of ops fused into one call of " + name +
                                       " fails although the ops themselves do not, so the ops run one by one: " + error.what() +
                                       ". This is a bug in Tenon: please report it. Set TENON_SKIP_PASS=fuse to avoid it.");
      return results;
    }
    return ops(std::move(inputs), scalars);
  };
  return {std::move(run)};
}

runtime::ProductCall make_call(const ir::Product& product, const ir::Graph& graph, const ir::Group& group) {
  return {std::make_shared<const runtime::ProductStep>(product.gelu), product.gelu.empty() ? runtime::AtenOps() : by_aten(graph, group)};
}

runtime::ConvolutionCall make_call(const ir::Convolution& convolution, const ir::Graph& graph, const ir::Group& group) {
  return {std::make_shared<const runtime::ConvolutionStep>(convolution), by_aten(graph, group)};
}

}  // namespace

std::vector<loops::Lowered> lower_kernels(const ir::Graph& graph, const ops::Lowerings& lowerings, const std::vector<ir::Group>& groups) {
  std::vector<loops::Lowered> out;
  for (size_t g = 0; g < groups.size() && groups[g].is_kernel(); ++g)
    out.push_back(loops::lower(graph, lowerings, groups[g], graph.name + "_" + std::to_string(g)));
  return out;
}

std::vector<runtime::FusedOp> make_fused_ops(const ir::Graph& graph, const std::vector<ir::Group>& groups,
                                             const std::vector<loops::Lowered>& lowered, const NativeOptions& options,
                                             const std::shared_ptr<Quarantine>& quarantine) {
  std::vector<runtime::FusedOp> out;
  for (runtime::KernelCall& kernel : make_kernels(graph, groups, lowered, options.for_autotuning)) out.push_back({std::move(kernel)});
  for (size_t g = lowered.size(); g < groups.size(); ++g)
    std::visit(
        [&](const auto& computation) {
          if constexpr (std::is_same_v<std::decay_t<decltype(computation)>, ir::LoopNest>)
            throw InternalError("a kernel after a library call");
          else out.push_back({make_call(computation, graph, groups[g])});
        },
        groups[g].computation);
  if (!checks_all() && options.verify <= 0) return out;
  for (size_t g = 0; g < groups.size(); ++g) {
    auto check = std::make_shared<const KernelCheck>(graph, groups[g], checks_all() ? 1 : options.verify, checks_all(), out[g], quarantine);
    out[g].check = [check](auto inputs, auto outputs, auto scalars) { (*check)(inputs, outputs, scalars); };
  }
  return out;
}

}  // namespace tenon::build
