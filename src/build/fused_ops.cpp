#include "build/fused_ops.h"

#include <algorithm>
#include <cstdlib>

#include "base/counters.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/warn.h"
#include "build/describe.h"
#include "build/kernel_check.h"
#include "build/lazy_interpreter.h"
#include "build/native.h"

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

// Runs ops one by one in ATen. Returns an empty function if there are none.
runtime::AtenOps by_aten(const std::shared_ptr<const ir::Graph>& ops, const ir::SymbolValues& symbols) {
  if (!ops) return {};
  auto interpreter = std::make_shared<const LazyInterpreter>([ops, symbols] { return interpret(ops, symbols); });
  return [interpreter](std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) {
    return interpreter->get()->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  };
}

// The versions of a kernel that the tuner chooses from: the default number of threads, another number of threads, narrower vectors.
std::vector<runtime::KernelCode> codes_of(const CompiledKernel& code, const CompiledKernel& narrow, int64_t iterations, int64_t elements) {
  int64_t shared = std::max<int64_t>(1, grain() * iterations / std::max<int64_t>(1, elements));
  std::vector<runtime::KernelCode> codes = {{"", code.function, code.owner, shared}};
  if (!narrow.function) return codes;
  int64_t other = iterations > shared ? iterations : std::max<int64_t>(1, iterations / 2);
  codes.push_back({iterations > shared ? "on one thread" : "on two threads", code.function, code.owner, other});
  codes.push_back({"256 bits", narrow.function, narrow.owner, shared});
  return codes;
}

// Whether ATen may have to compute the nodes of a group, because what runs for it does not serve all inputs.
bool needs_aten(const ir::Group& group) {
  if (group.is_kernel()) return !group.loops().index_ranges.empty();
  const auto* product = std::get_if<ir::Product>(&group.computation);
  return !product || !product->gelu.empty();
}

bool is_all_true(const at::Tensor& flags) {
  at::Tensor all = flags.contiguous();
  const float* at = all.const_data_ptr<float>();
  return std::find(at, at + all.numel(), 0.0f) == at + all.numel();
}

}  // namespace

std::vector<loops::Lowered> lower_kernels(const ir::Graph& graph, const ops::Lowerings& lowerings, const std::vector<ir::Group>& groups) {
  std::vector<loops::Lowered> out;
  for (size_t g = 0; g < groups.size() && groups[g].is_kernel(); ++g)
    out.push_back(loops::lower(graph, lowerings, groups[g], graph.name + "_" + std::to_string(g)));
  return out;
}

FusedOps::FusedOps(const ir::Graph& graph, const std::vector<ir::Group>& groups, const std::vector<loops::Lowered>& lowered,
                   const NativeOptions& options, std::shared_ptr<Quarantine> quarantine, std::vector<ir::Condition>& conditions)
    : verified_(checks_all() ? 1 : options.verify), quarantine_(std::move(quarantine)) {
  std::vector<CompiledKernel> codes = compile_kernels(lowered), narrow(codes.size());
  if (options.for_autotuning && has_wide_vectors()) narrow = compile_kernels(lowered, /*has_narrow_vectors=*/true);
  for (size_t g = 0; g < groups.size(); ++g) {
    GroupOp& op = ops_.emplace_back();
    if (g < lowered.size()) op.computation = make_kernel(groups[g], lowered[g], codes[g], narrow[g]);
    else op.computation = make_computation(graph, groups[g], conditions);
    if (verified_ > 0 || needs_aten(groups[g])) op.ops = std::make_shared<const ir::Graph>(ir::subgraph(graph, groups[g]));
  }
}

FusedOps::Kernel FusedOps::make_kernel(const ir::Group& group, const loops::Lowered& lowered, CompiledKernel code, CompiledKernel narrow) {
  Kernel kernel{std::move(code), std::move(narrow), lowered.scalars, lowered.sizes, lowered.iterations, lowered.elements, {}};
  for (const ir::IndexRange& range : group.loops().index_ranges) {
    auto input = std::find(group.inputs.begin(), group.inputs.end(), range.index) - group.inputs.begin();
    kernel.ranges.push_back({static_cast<size_t>(input), range.extent, range.exempt});
  }
  return kernel;
}

FusedOps::Computation FusedOps::make_computation(const ir::Graph& graph, const ir::Group& group, std::vector<ir::Condition>& conditions) {
  if (const auto* product = std::get_if<ir::Product>(&group.computation))
    return SymbolicProduct{std::make_shared<const runtime::ProductStep>(product->gelu), graph.values[group.inputs[0]].type.sizes[0]};
  if (const auto* convolution = std::get_if<ir::Convolution>(&group.computation))
    return SymbolicConvolution{std::make_shared<const runtime::ConvolutionStep>(*convolution)};
  const auto* rewrite = std::get_if<ir::Rewrite>(&group.computation);
  if (!rewrite) throw InternalError("a kernel after a library call");
  return SymbolicRewrite{make_native(rewrite->graph, {}, {}, std::make_shared<Quarantine>(), conditions), group.outputs.size(),
                         name_of(*rewrite)};
}

bool FusedOps::takes_buffers(size_t group) const {
  const Computation& computation = ops_[group].computation;
  return std::holds_alternative<Kernel>(computation) || std::holds_alternative<SymbolicProduct>(computation);
}

std::vector<runtime::FusedOp> FusedOps::at(const ir::SymbolValues& symbols) const {
  std::vector<runtime::FusedOp> out;
  out.reserve(ops_.size());
  for (const GroupOp& op : ops_) {
    runtime::AtenOps aten = by_aten(op.ops, symbols);
    std::visit([&](const auto& computation) { out.push_back({make_call(computation, symbols, std::move(aten)), {}}); }, op.computation);
    if (verified_ <= 0) continue;
    auto check = std::make_shared<const KernelCheck>(op.ops, symbols, verified_, checks_all(), out.back(), quarantine_);
    out.back().check = [check](auto inputs, auto outputs, auto scalars) { (*check)(inputs, outputs, scalars); };
  }
  return out;
}

runtime::KernelCall FusedOps::make_call(const Kernel& kernel, const ir::SymbolValues& symbols, runtime::AtenOps by_aten) {
  int64_t iterations = kernel.iterations.value(symbols);
  runtime::KernelCall call{.codes = codes_of(kernel.code, kernel.narrow, iterations, kernel.elements.value(symbols)),
                           .sizes = kernel.sizes.values(symbols),
                           .iterations = iterations,
                           .by_aten = std::move(by_aten)};
  for (const loops::KernelScalar& number : kernel.scalars)
    call.scalars.emplace_back(number.scalar, number.size ? static_cast<double>(number.size->value(symbols)) : number.known);
  for (const Kernel::Range& range : kernel.ranges) call.ranges.push_back({range.input, range.extent.value(symbols), range.exempt});
  return call;
}

runtime::RewriteCall FusedOps::make_call(const SymbolicRewrite& rewrite, const ir::SymbolValues& symbols, runtime::AtenOps by_aten) {
  auto run = [rewritten = rewrite.program->at(symbols), ops = std::move(by_aten), outputs = rewrite.outputs, name = rewrite.name](
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

runtime::ProductCall FusedOps::make_call(const SymbolicProduct& product, const ir::SymbolValues& symbols, runtime::AtenOps by_aten) {
  return {product.step, product.rows.value(symbols), std::move(by_aten)};
}

runtime::ConvolutionCall FusedOps::make_call(const SymbolicConvolution& convolution, const ir::SymbolValues&, runtime::AtenOps by_aten) {
  return {convolution.step, std::move(by_aten)};
}

}  // namespace tenon::build
