#include "runtime/interpreter.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "bridge/convert.h"
#include "ir/graph/group.h"
#include "ir/graph/node.h"

namespace tenon::runtime {

using ir::kNoValue;
using ir::ValueId;

Interpreter::Interpreter(std::shared_ptr<const ir::Graph> graph, ir::SymbolValues symbols, ir::Reuse reuse,
                         const std::vector<c10::IValue>& resources, c10::DispatchKeySet keys_off, std::vector<FusedOp> fused_ops,
                         ir::Arena arena, bool keeps_memory)
    : owner_(std::move(graph)),
      graph_(*owner_),
      layout_(graph_, std::move(symbols), std::move(arena), keeps_memory),
      keys_off_(keys_off),
      fused_ops_(std::move(fused_ops)) {
  build(std::move(reuse), resources);
  flat_ = FlatPlan::make(layout_, fused_ops_, keys_off_);
}

Interpreter::~Interpreter() { delete spare_frame_.load(); }

const FusedOp* Interpreter::fused_op(size_t node) const {
  const auto* step = std::get_if<FusedStep>(&steps_[node].computation);
  return step ? &step->op() : nullptr;
}

// Nodes whose results are views that do not escape the run and are not written through; types alone describe such views.
std::vector<bool> Interpreter::find_views() const {
  std::vector<bool> is_seen(graph_.values.size(), false);
  auto see = [&](ValueId id) {
    for (; id != kNoValue; id = graph_.values[id].alias_of) is_seen[id] = true;
  };
  for (ValueId id : graph_.outputs) see(id);
  for (const ir::WriteBack& write : graph_.write_backs) see(write.value);
  for (const ir::Node& node : graph_.nodes)
    for (const ir::Node::Write& write : node.writes) see(write.before);
  std::vector<bool> out;
  for (const ir::Node& node : graph_.nodes) {
    bool is_view = ir::is_view(graph_, node);
    ir::for_each_definition(node, [&](ValueId id) {
      const ir::FixedType& type = layout_.types[id];
      bool has_elements = std::count(type.sizes.begin(), type.sizes.end(), 0) == 0;
      is_view = is_view && !is_seen[id] && has_elements && !ir::is_complex(type.dtype) &&
                type.dtype == graph_.values[graph_.values[id].alias_of].type.dtype;
    });
    out.push_back(is_view);
  }
  return out;
}

// The values that die at each node. A view made by the frame does not own its base, so the base lives as long as its views, and as
// long as views of these that ATen makes.
std::vector<std::vector<ValueId>> Interpreter::find_drops(const ir::Reuse& reuse, const std::vector<bool>& is_view) const {
  constexpr size_t kNever = SIZE_MAX;
  std::vector<size_t> dies(graph_.values.size(), kNever);
  for (size_t i = 0; i < reuse.drops.size(); ++i)
    for (ValueId id : reuse.drops[i]) dies[id] = i;
  std::vector<bool> is_unowned(graph_.values.size(), false);
  auto base = [&](ValueId id) { return graph_.values[id].alias_of; };
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    ir::for_each_definition(graph_.nodes[i],
                            [&](ValueId id) { is_unowned[id] = is_view[i] || (base(id) != kNoValue && is_unowned[base(id)]); });
  for (size_t i = graph_.nodes.size(); i-- > 0;)
    ir::for_each_definition(graph_.nodes[i], [&](ValueId id) {
      if (is_unowned[id]) dies[base(id)] = std::max(dies[base(id)], dies[id]);
    });
  for (const ir::WriteBack& write : graph_.write_backs) dies[write.input] = kNever;
  std::vector<std::vector<ValueId>> drops(graph_.nodes.size());
  for (size_t id = 0; id < dies.size(); ++id)
    if (dies[id] != kNever) drops[dies[id]].push_back(static_cast<ValueId>(id));
  return drops;
}

void Interpreter::build(ir::Reuse reuse, const std::vector<c10::IValue>& resources) {
  std::vector<bool> is_view = find_views();
  std::vector<std::vector<ValueId>> drops = find_drops(reuse, is_view);
  steps_.reserve(graph_.nodes.size());
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    steps_.push_back(make_step(i, reuse, is_view[i], std::move(drops[i]), resources));
    steps_.back().no_grad = graph_.nodes[i].no_grad;
  }
  written_already_ = std::move(reuse.written_already);
  find_joinable();
}

Interpreter::NodeStep Interpreter::make_step(size_t i, ir::Reuse& reuse, bool is_view, std::vector<ValueId> drops,
                                             const std::vector<c10::IValue>& resources) {
  const ir::Node& node = graph_.nodes[i];
  std::vector<bool>& in_place = reuse.in_place[i];
  auto by_aten = [&](bool may_move) { return AtenStep(node, layout_, resources, std::move(in_place), drops, may_move); };
  if (ir::is_fused(node)) return {FusedStep(node, fused_ops_[ir::group_of(node)], layout_, std::move(in_place), std::move(drops))};
  if (reuse.no_op[i]) return {NoOpStep{ir::operand(node, 0), node.results[0].ids[0], std::move(drops)}};
  if (is_view) {
    std::vector<ValueId> results;
    ir::for_each_definition(node, [&](ValueId id) { results.push_back(id); });
    return {ViewStep{std::move(results), drops, by_aten(/*may_move=*/false)}};
  }
  bool is_scatter = node.op == "aten::as_strided_scatter";
  if (const auto* offset = is_scatter ? ir::constant<ir::Size>(node, 4) : nullptr) {
    auto integers = [&](size_t k) { return std::get<ir::SizeList>(std::get<ir::Attribute>(node.args[k])).values(symbols()); };
    return {ScatterStep{ir::operand(node, 0), ir::operand(node, 1), node.results[0].ids[0], integers(2), integers(3),
                        offset->value(symbols()), drops, by_aten(/*may_move=*/true)}};
  }
  return {by_aten(/*may_move=*/true)};
}

void Interpreter::find_joinable() {
  for (size_t i = steps_.size(); i-- > 0;) {
    const auto* step = std::get_if<FusedStep>(&steps_[i].computation);
    const auto* next = i + 1 < steps_.size() ? std::get_if<FusedStep>(&steps_[i + 1].computation) : nullptr;
    if (!step || !next || step->joinable_operand() == kNoValue || step->joinable_operand() != next->joinable_operand()) continue;
    std::vector<const FusedStep*>& after = steps_[i + 1].joined;
    steps_[i].joined = {step};
    if (after.empty()) steps_[i].joined.push_back(next);
    else steps_[i].joined.insert(steps_[i].joined.end(), after.begin(), after.end());
  }
}

void Interpreter::run_step(const NoOpStep& step, RunFrame& frame, RunMode) {
  frame.put(step.result, frame.tensor(step.operand));
  for (ValueId id : step.drops) frame.drop(id);
}

void Interpreter::run_step(const ViewStep& step, RunFrame& frame, RunMode mode) {
  bool is_made = mode == RunMode::kernels;
  for (ValueId id : step.results) is_made = is_made && frame.put_view(id);
  if (!is_made) return step.by_aten.run(frame, mode);
  for (ValueId id : step.drops) frame.drop(id);
}

void Interpreter::run_step(const ScatterStep& step, RunFrame& frame, RunMode mode) {
  if (mode == RunMode::autograd) return step.by_aten.run(frame, mode);
  at::Tensor whole = bridge::copy_keeping_layout(frame.tensor(step.whole));
  whole.as_strided(step.sizes, step.strides, step.offset).copy_(frame.tensor(step.part));
  frame.put(step.result, std::move(whole));
  for (ValueId id : step.drops) frame.drop(id);
}

void Interpreter::write_back(RunFrame& frame) const {
  std::vector<std::pair<size_t, at::Tensor>> pending;
  for (size_t i = 0; i < graph_.write_backs.size(); ++i) {
    if (written_already_[i]) continue;
    at::Tensor source = frame.tensor(graph_.write_backs[i].value);
    // The source may alias an input that another write-back overwrites, so it is copied first.
    for (const ir::WriteBack& other : graph_.write_backs)
      if (source.is_alias_of(frame.tensor(other.input))) {
        source = source.clone();
        break;
      }
    pending.emplace_back(i, std::move(source));
  }
  for (auto& [i, source] : pending) frame.tensor(graph_.write_backs[i].input).copy_(source);
}

std::unique_ptr<RunFrame> Interpreter::take_frame(c10::ArrayRef<double> scalars) const {
  std::unique_ptr<RunFrame> frame(spare_frame_.exchange(nullptr));
  if (!frame || !frame->fits()) frame = std::make_unique<RunFrame>(layout_);
  frame->scalars = scalars.empty() ? c10::ArrayRef<double>(graph_.scalars) : scalars;
  frame->begin();
  return frame;
}

void Interpreter::give_back(std::unique_ptr<RunFrame> frame) const {
  frame->clear();
  delete spare_frame_.exchange(frame.release());
}

void Interpreter::release_kept_memory() const {
  if (layout_.keeps_memory) delete spare_frame_.exchange(nullptr);
}

void Interpreter::run_steps(RunFrame& frame, RunMode mode, std::vector<double>* seconds) const {
  std::optional<c10::impl::ExcludeDispatchKeyGuard> below;
  std::optional<c10::AutoGradMode> grad;
  if (mode == RunMode::kernels) below.emplace(keys_off_);
  if (mode == RunMode::visible) grad.emplace(false);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const NodeStep& step = steps_[i];
    std::optional<c10::AutoGradMode> other;
    if (mode == RunMode::autograd && step.no_grad == at::GradMode::is_enabled()) other.emplace(!step.no_grad);
    auto run = [&] { std::visit([&](const auto& computation) { run_step(computation, frame, mode); }, step.computation); };
    if (seconds) (*seconds)[i] = seconds_of(run);
    else if (!step.joined.empty() && mode == RunMode::kernels && FusedStep::run_joined(step.joined, frame)) i += step.joined.size() - 1;
    else run();
  }
  if (graph_.write_backs.empty()) return;
  std::optional<c10::AutoGradMode> off;
  if (mode == RunMode::autograd) off.emplace(false);
  write_back(frame);
}

std::vector<at::Tensor> Interpreter::run(std::vector<at::Tensor> inputs, RunMode mode, c10::ArrayRef<double> scalars,
                                         std::vector<double>* seconds) const {
  if (inputs.size() != graph_.inputs.size())
    throw InternalError("graph @" + graph_.name + " takes " + std::to_string(graph_.inputs.size()) + " inputs, got " +
                        std::to_string(inputs.size()));
  if (flat_ && mode == RunMode::kernels) {
    c10::SmallVector<FlatPlan::InputBuffer, 16> all;
    for (const at::Tensor& input : inputs) all.push_back(FlatPlan::InputBuffer::of(input));
    auto results = flat_->run(all, scalars.empty() ? c10::ArrayRef<double>(graph_.scalars) : scalars, /*keeps_results=*/false);
    return {results.begin(), results.end()};
  }
  std::unique_ptr<RunFrame> frame = take_frame(scalars);
  for (size_t i = 0; i < inputs.size(); ++i) frame->put(graph_.inputs[i].value, std::move(inputs[i]));
  run_steps(*frame, mode, seconds);
  std::vector<at::Tensor> outputs;
  outputs.reserve(graph_.outputs.size());
  for (ValueId id : graph_.outputs) outputs.push_back(id == kNoValue ? at::Tensor() : frame->tensor(id));
  give_back(std::move(frame));
  return outputs;
}

c10::SmallVector<at::Tensor, 4> Interpreter::run_kernels(c10::ArrayRef<const at::Tensor*> inputs) const {
  std::unique_ptr<RunFrame> frame = take_frame({});
  for (size_t i = 0; i < inputs.size(); ++i) frame->put(graph_.inputs[i].value, *inputs[i]);
  run_steps(*frame, RunMode::kernels, nullptr);
  c10::SmallVector<at::Tensor, 4> outputs;
  for (ValueId id : graph_.outputs) outputs.push_back(id == kNoValue ? at::Tensor() : frame->tensor(id));
  give_back(std::move(frame));
  return outputs;
}

}  // namespace tenon::runtime
