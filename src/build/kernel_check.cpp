#include "build/kernel_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "base/counters.h"
#include "bridge/convert.h"
#include "build/fixed_graph.h"
#include "build/verifier.h"
#include "capture/listener.h"
#include "ops/table.h"
#include "planner/reuse.h"
#include "runtime/widen.h"

namespace tenon::build {

std::shared_ptr<const runtime::Interpreter> interpret(std::shared_ptr<const ir::Graph> graph, const ir::SymbolValues& symbols) {
  ir::Reuse reuse = planner::no_reuse(*graph);
  return std::make_shared<const runtime::Interpreter>(std::move(graph), symbols, std::move(reuse), std::vector<c10::IValue>(),
                                                      capture::keys_above_backends());
}

namespace {

// Multiplies each element by a random factor close to 1.
void perturb(at::Tensor& t, double deviation, at::Generator& generator) {
  if (!t.is_floating_point() || !t.is_non_overlapping_and_dense()) return;
  t.mul_(at::randn(t.sizes(), generator, t.options().dtype(at::kDouble)).mul_(deviation).add_(1).to(t.dtype()));
}

}  // namespace

KernelCheck::KernelCheck(const std::shared_ptr<const ir::Graph>& ops, const ir::SymbolValues& symbols, double fraction, bool serve_eager,
                         runtime::FusedOp op, std::shared_ptr<Quarantine> quarantine)
    : fraction_(fraction), serve_eager_(serve_eager), op_(std::move(op)), quarantine_(std::move(quarantine)) {
  for (const ir::Node& node : ops->nodes)
    if (const ops::Facts* facts = ops::find(node.op)) {
      leeway_.zeros |= facts->zero_sign_varies;
      leeway_.infinities |= facts->infinity_varies;
    }
  eager_ = interpret(ops, symbols);
  auto wide = std::make_shared<const ir::Graph>(runtime::widen(*ops));
  truth_ = interpret(wide, symbols);
  noisy_ = interpret(std::make_shared<const ir::Graph>(runtime::add_noise(*wide, *ops, units_)), symbols);
}

void KernelCheck::operator()(c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> outputs, c10::ArrayRef<double> scalars) const {
  if (!is_sampled(runs_++, fraction_)) return;
  ++counters().verified;
  c10::impl::ExcludeDispatchKeyGuard quiet(capture::keys_above_backends());
  std::vector<std::vector<Comparison>> all(outputs.size());
  auto add = [&](const Tensors& in, const Tensors& out, bool noise) {
    std::vector<Comparison> more = comparisons(in, out, scalars, noise, all[0].size());
    for (size_t i = 0; i < more.size(); ++i) all[i].push_back(std::move(more[i]));
  };
  add(inputs.vec(), outputs.vec(), false);
  std::string found;
  for (size_t i = 0; i < outputs.size() && found.empty(); ++i) {
    if (violation(all[i], leeway_).empty()) continue;
    if (!all[i][0].noisy.defined()) {  // The noisy run can only excuse a violation, so it is made after the first one.
      for (auto& comparisons : all) comparisons.clear();
      add(inputs.vec(), outputs.vec(), true);
    }
    found = violation(all[i], leeway_);
    if (!found.empty() && outputs[i].numel() < kMinElementsForOneRun) {
      at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{1});
      while (all[i].size() < kRunsForFewElements) {
        // Every second run perturbs only some inputs, since the kernel may compare an input with a value computed from another one.
        Tensors perturbed;
        size_t run = all[i].size();
        for (size_t k = 0; k < inputs.size(); ++k) {
          perturbed.push_back(bridge::copy_keeping_layout(inputs[k]));
          if (run % 2 == 0 || (run / 2 >> k % 4) % 2 == 0) perturb(perturbed.back(), 0x1p-6, generator);
        }
        add(perturbed, run_kernel(perturbed, scalars), true);
      }
      found = violation(all[i], leeway_);
    }
    if (!found.empty()) found = "output " + std::to_string(i) + ": " + found;
  }
  if (!found.empty()) quarantine_->impose(found, fixed_graph(eager_->graph(), eager_->symbols()), inputs.vec());
  if (found.empty() && !serve_eager_) return;
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].copy_(all[i][0].eager);
}

// Returns one comparison per output.
std::vector<Comparison> KernelCheck::comparisons(const Tensors& inputs, const Tensors& outputs, c10::ArrayRef<double> scalars, bool noise,
                                                 size_t run) const {
  constexpr auto kMode = runtime::RunMode::kernels;
  Tensors eager = eager_->run(inputs, kMode, scalars);
  Tensors wide = runtime::widen(truth_->graph(), truth_->symbols(), inputs);
  Tensors truth = truth_->run(wide, kMode, scalars), noisy(outputs.size());
  if (noise && !units_.empty()) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{run});
    noisy = noisy_->run(runtime::with_noise(noisy_->graph(), noisy_->symbols(), units_, wide, run, generator), kMode, scalars);
  }
  std::vector<Comparison> out;
  for (size_t i = 0; i < outputs.size(); ++i) out.push_back({outputs[i], eager[i], truth[i], noisy[i]});
  return out;
}

namespace {

Tensors run_call(const runtime::RewriteCall& call, const runtime::Interpreter&, const Tensors& inputs, c10::ArrayRef<double> scalars) {
  return call.run(inputs, scalars);
}

Tensors run_call(const runtime::ProductCall& call, const runtime::Interpreter& eager, const Tensors& inputs,
                 c10::ArrayRef<double> scalars) {
  at::Tensor out = call.product->run({inputs[0], inputs[1], inputs.size() > 2 ? inputs[2] : at::Tensor()}, {});
  if (!out.defined()) return call.by_aten(inputs, scalars);
  return {out.view(eager.type(eager.graph().outputs[0]).sizes)};
}

Tensors run_call(const runtime::ConvolutionCall& call, const runtime::Interpreter&, const Tensors& inputs, c10::ArrayRef<double> scalars) {
  std::optional<at::Tensor> out = call.convolution->run(inputs, scalars);
  return out ? Tensors{*out} : call.by_aten(inputs, scalars);
}

Tensors run_call(const runtime::KernelCall& kernel, const runtime::Interpreter& eager, const Tensors& inputs,
                 c10::ArrayRef<double> scalars) {
  Tensors outputs;
  std::vector<void*> memory;
  for (const at::Tensor& t : inputs) memory.push_back(const_cast<void*>(t.const_data_ptr()));
  for (ir::ValueId id : eager.graph().outputs) memory.push_back(outputs.emplace_back(bridge::empty_of(eager.type(id))).mutable_data_ptr());
  runtime::run(kernel, memory, scalars);
  return outputs;
}

}  // namespace

Tensors KernelCheck::run_kernel(const Tensors& inputs, c10::ArrayRef<double> scalars) const {
  if (scalars.empty()) scalars = eager_->graph().scalars;
  return std::visit([&](const auto& call) { return run_call(call, *eager_, inputs, scalars); }, op_.call);
}

}  // namespace tenon::build
