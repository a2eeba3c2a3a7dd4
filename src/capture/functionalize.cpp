#include "capture/functionalize.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "bridge/convert.h"
#include "capture/storage_values.h"
#include "ir/graph/overlap.h"
#include "ops/table.h"

namespace tenon::capture {
namespace {

using ir::kNoValue;
using ir::ValueId;

// A use, in grad mode, of a value through a tensor that does not require grad.
struct PlainUse {
  size_t node;
  size_t argument;
  size_t item;
};

class Functionalizer {
 public:
  Functionalizer(const Tape& tape, TapeRange range, const std::string& name)
      : tape_(tape), range_(clamped(range, tape)), storages_(tape_, range_, out_) {
    out_.graph.name = identifier(name);
  }

  Functional run(const ProgramResults& results) {
    size_t forward = std::min(results.forward, results.refs.size());
    bool joint = range_.backward_start != SIZE_MAX;
    for (size_t i = range_.begin; i < range_.end; ++i) {
      if (i == range_.backward_start) start_backward(results.refs, forward);
      if (!is_excluded(tape_, range_, i)) emit(i);
    }
    if (joint && range_.backward_start >= range_.end) start_backward(results.refs, forward);
    if (!joint) bind_results(results.refs, 0, forward);
    bind_results(results.refs, forward, results.refs.size());
    out_.graph.write_backs = write_backs();
    detach_plain_uses();
    return std::move(out_);
  }

 private:
  static TapeRange clamped(TapeRange range, const Tape& tape) {
    range.end = std::min(range.end, tape.ops.size());
    return range;
  }

  void obstacle(std::string text) { add_obstacle(out_, std::move(text)); }

  void check_operands_filled(const TapeOp& op) {
    bool is_view = op.writes.empty() && !op.results.empty();
    auto check = [&](const TensorRef& ref) {
      if (ref.defined()) storages_.check_filled(ref);
    };
    for (const TapeResult& result : op.results)
      for (const TensorRef& item : result.items) is_view &= item.defined() && storages_[item.storage].root != kNoValue;
    if (is_view) return;  // A view reads sizes and strides, not contents.
    for (size_t i = 0; i < op.args.size(); ++i) {
      if (static_cast<int32_t>(i) == op.overwrites) continue;
      if (const auto* ref = std::get_if<TensorRef>(&op.args[i])) {
        bool is_out = op.op.schema().arguments()[i].is_out();
        if (!is_out) check(*ref);
      } else if (const auto* list = std::get_if<TensorListRef>(&op.args[i])) {
        for (const TensorRef& item : list->items) check(item);
      }
    }
  }

  // ---- ops ----

  ir::Argument argument(const TapeOp& op, size_t index, size_t node_index) {
    const TapeArgument& arg = op.args[index];
    if (free_scalar(op, arg) && (range_.by_storage || !range_.free_scalars.empty())) {
      size_t on_tape = scalar_on_tape(op, index);
      if (range_.by_storage || (on_tape < range_.free_scalars.size() && range_.free_scalars[on_tape])) return scalar(op, index, on_tape);
    }
    bool live = !op.no_grad && !op.in_backward;
    auto operand = [&](const TensorRef& ref, size_t item) -> ValueId {
      if (!ref.defined()) return kNoValue;
      ValueId value = storages_.read(ref);
      if (live && !ref.requires_grad) plain_uses_.push_back({node_index, index, item});
      return value;
    };
    if (const auto* ref = std::get_if<TensorRef>(&arg)) {
      if (ref->defined())
        for (int32_t i : storages_.externals_on(ref->storage))
          if (tape_.externals[i].is_constant()) return ir::Attribute(*tape_.externals[i].constant);
      return operand(*ref, 0);
    }
    if (const auto* list = std::get_if<TensorListRef>(&arg)) {
      ir::ValueList values;
      for (size_t i = 0; i < list->items.size(); ++i) values.ids.push_back(operand(list->items[i], i));
      return values;
    }
    if (const auto* number = std::get_if<ir::ScalarTensor>(&arg)) return ir::Attribute(*number);
    auto attribute = bridge::to_attribute(std::get<c10::IValue>(arg), out_.resources);
    if (!attribute) obstacle("an argument of " + op_name(op.op) + " without a text form");
    return attribute.value_or(ir::Attribute(ir::None{}));
  }

  static size_t scalar_on_tape(const TapeOp& op, size_t index) {
    size_t out = op.before.scalars;
    for (size_t i = 0; i < index; ++i) out += free_scalar(op, op.args[i]).has_value();
    return out;
  }

  // A scalar that may differ in each call.
  ir::Argument scalar(const TapeOp& op, size_t index, size_t index_on_tape) {
    ir::Scalar scalar{static_cast<int32_t>(out_.scalars.size())};
    out_.scalars.push_back(static_cast<int32_t>(index_on_tape));
    out_.graph.scalars.push_back(tape_.scalars[index_on_tape]);
    const auto* tensor = std::get_if<ir::ScalarTensor>(&op.args[index]);
    if (!tensor) return ir::Attribute(scalar);
    ir::ScalarTensor held = *tensor;
    held.number = scalar;
    return ir::Attribute(held);
  }

  // The operand on this storage.
  ValueId operand_on(const TapeOp& op, const ir::Node& node, int32_t storage) const {
    ValueId found = kNoValue;
    auto consider = [&](const TensorRef& ref, ValueId value) {
      if (!ref.defined() || ref.storage != storage || value == kNoValue) return;
      if (found == kNoValue) found = value;
    };
    for (size_t i = 0; i < op.args.size(); ++i) {
      if (const auto* ref = std::get_if<TensorRef>(&op.args[i])) {
        if (const auto* value = std::get_if<ValueId>(&node.args[i])) consider(*ref, *value);
      } else if (const auto* list = std::get_if<TensorListRef>(&op.args[i])) {
        for (size_t k = 0; k < list->items.size(); ++k) consider(list->items[k], std::get<ir::ValueList>(node.args[i]).ids[k]);
      }
    }
    return found;
  }

  // If an op writes an operand that overlaps another one, its result depends on the kernel's iteration order, which a copy
  // would change. Only a pointwise op on exactly the same elements is safe.
  void check_overlaps(const TapeOp& op) {
    auto clash = [&](const TapeWrite& write, const TensorRef& other) {
      if (!other.defined() || other.storage != write.ref.storage) return;
      bool same = other.geometry == write.ref.geometry;
      if (!same && !ir::may_overlap(to_type(other.geometry), to_type(write.ref.geometry))) return;
      bool pointwise = op.op.hasTag(at::Tag::pointwise) && op.writes.size() == 1;
      if (!pointwise || !same) obstacle(op_name(op.op) + " overwrites memory that another operand of it reads");
    };
    for (const TapeWrite& write : op.writes) {
      if (ir::may_overlap_itself(to_type(write.ref.geometry))) obstacle("it writes to a tensor whose elements share memory (expanded)");
      for (size_t i = 0; i < op.args.size(); ++i) {
        bool own = static_cast<int32_t>(i) == write.argument;
        if (const auto* ref = std::get_if<TensorRef>(&op.args[i])) {
          if (!own) clash(write, *ref);
        } else if (const auto* list = std::get_if<TensorListRef>(&op.args[i])) {
          for (size_t k = 0; k < list->items.size(); ++k)
            if (!own || static_cast<int32_t>(k) != write.item) clash(write, list->items[k]);
        }
      }
    }
  }

  // Ops such as `t_()` change their operand's sizes and strides. In the graph this is a view.
  void view_instead(const TapeOp& op, ir::Node& node) {
    const TensorRef& ref = op.results[0].items[0];
    if (storages_[ref.storage].external) storages_.set_offset_matters(ref.storage);
    breaks_autograd = true;  // The gradient would have other strides.
    ValueId operand = std::get<ValueId>(node.args[0]);
    node.op = "aten::as_strided";
    node.args = {operand, ir::Attribute(ref.geometry.sizes_vector()), ir::Attribute(ref.geometry.strides_vector()),
                 ir::Attribute(ref.geometry.offset)};
  }

  // The offset of as_strided counts from the start of the storage, not of its operand.
  void note_offset(const TapeOp& op) {
    if (op.op.operator_name().name.rfind("aten::as_strided", 0) != 0) return;
    const auto& ref = std::get<TensorRef>(op.args[0]);
    if (storages_[ref.storage].external) storages_.set_offset_matters(ref.storage);
  }

  void emit(size_t index) {
    const TapeOp& op = tape_.ops[index];
    check_operands_filled(op);
    note_offset(op);
    check_overlaps(op);
    std::vector<ir::Argument> args;
    for (size_t i = 0; i < op.args.size(); ++i) args.push_back(argument(op, i, index));
    ir::Node node;
    node.op = op_name(op.op);
    node.args = std::move(args);
    if (op.op.hasTag(at::Tag::inplace_view)) view_instead(op, node);
    node.ordered = op.ordered || op.may_throw;
    node.no_grad = op.no_grad && !op.in_backward;
    for (const TapeWrite& write : op.writes) {
      const ir::Argument& arg = node.args[write.argument];
      const auto* list = std::get_if<ir::ValueList>(&arg);
      ValueId before = list ? list->ids[write.item] : std::get<ValueId>(arg);
      node.writes.push_back({write.argument, write.item, before, out_.graph.add_value(to_type(write.ref.geometry))});
    }
    struct Fresh {
      TensorRef ref;
      ValueId value;
    };
    std::vector<Fresh> fresh;
    for (const TapeResult& result : op.results) {
      ir::Result r{result.is_list, {}};
      for (const TensorRef& ref : result.items) {
        ValueId value = kNoValue;
        if (ref.defined()) {
          value = written_result(op, node, ref);
          if (value == kNoValue) {
            StorageState& state = storages_[ref.storage];
            bool is_new = state.root == kNoValue && !state.external;
            ValueId alias = is_new ? kNoValue : operand_on(op, node, ref.storage);
            if (!is_new && alias == kNoValue) obstacle(node.op + " returns memory that is not one of its operands");
            value = out_.graph.add_value(to_type(ref.geometry), alias);
            fresh.push_back({ref, value});
            if (is_new) {
              state.root = value;
              state.root_geometry = ref.geometry;
              state.unfilled = op.allocates && numel(ref.geometry) > 0;
            }
          }
        }
        r.ids.push_back(value);
      }
      node.results.push_back(std::move(r));
    }
    std::vector<ir::Node::Write> writes = node.writes;
    std::vector<ir::Result> results = node.results;
    node_of_op_.push_back({index, out_.graph.nodes.size()});
    out_.graph.nodes.push_back(std::move(node));
    for (const Fresh& f : fresh) {
      // Values with the same geometry (`h` and `h.detach()`) share the first one's entry.
      auto& aliases = storages_[f.ref.storage].aliases;
      if (std::none_of(aliases.begin(), aliases.end(), [&](const AliasValue& a) { return a.geometry == f.ref.geometry; }))
        aliases.push_back({f.ref.geometry, f.value});
    }
    for (size_t i = 0; i < writes.size(); ++i) storages_.apply_write(op.writes[i], writes[i].after, op);
    for (size_t r = 0; r < results.size(); ++r)
      for (size_t i = 0; i < results[r].ids.size(); ++i)
        if (const TensorRef& ref = op.results[r].items[i]; ref.handle >= 0) storages_.set_handle(ref, results[r].ids[i]);
  }

  ValueId written_result(const TapeOp& op, const ir::Node& node, const TensorRef& ref) const {
    for (size_t i = 0; i < op.writes.size(); ++i)
      if (op.writes[i].ref.storage == ref.storage && op.writes[i].ref.geometry == ref.geometry) return node.writes[i].after;
    return kNoValue;
  }

  // ---- results ----

  int32_t output(ValueId value) {
    auto& outputs = out_.graph.outputs;
    auto it = std::find(outputs.begin() + static_cast<ptrdiff_t>(first_output_), outputs.end(), value);
    if (it != outputs.end()) return static_cast<int32_t>(it - outputs.begin());
    outputs.push_back(value);
    return static_cast<int32_t>(outputs.size() - 1);
  }

  void bind_results(const std::vector<TensorRef>& refs, size_t begin, size_t end) {
    first_output_ = out_.graph.outputs.size();
    std::unordered_map<int32_t, std::vector<size_t>> on_storage;
    for (size_t i = begin; i < end; ++i) on_storage[refs[i].storage].push_back(i);
    for (size_t i = begin; i < end; ++i) out_.results.push_back(bind_result(i, refs, on_storage.at(refs[i].storage)));
    if (begin == 0) out_.forward_outputs = out_.graph.outputs.size();
  }

  // `same_storage` lists the results on the same storage, including this one.
  ResultBinding bind_result(size_t index, const std::vector<TensorRef>& all, const std::vector<size_t>& same_storage) {
    const TensorRef& ref = all[index];
    ResultBinding binding;
    if (!ref.defined()) return binding;
    StorageState& state = storages_[ref.storage];
    binding.geometry = ref.geometry;
    if (state.external) {
      binding.kind = ResultBinding::Kind::external;
      binding.index = external_for(ref);
      if (binding.index >= 0) binding.view = view_of_external(ref, binding.index);
      return binding;
    }
    storages_.check_filled(ref);
    // Results that share a storage are views of its root. The first one with the root's geometry is the root itself.
    bool shared = same_storage.size() > 1, first = true;
    for (size_t i : same_storage)
      if (i < index && all[i].geometry == state.root_geometry) first = false;
    if (shared && ref.geometry.dtype != state.root_geometry.dtype) obstacle("it returns the same memory with two element types");
    ValueId value = shared ? state.root : storages_.read(ref);
    if (ref.requires_grad) out_.graph.values[value].requires_grad = true;
    bool is_part = shared && !(first && ref.geometry == state.root_geometry);
    binding.kind = is_part ? ResultBinding::Kind::view_of_output : ResultBinding::Kind::output;
    binding.index = output(value);
    return binding;
  }

  // Extracts the views that lead from an external to a result on its memory as a separate graph. Run under autograd, it
  // gives the result its history.
  std::shared_ptr<const ir::Graph> view_of_external(const TensorRef& ref, int32_t external) {
    const External& e = tape_.externals[external];
    if (ref.geometry.dtype != e.ref.geometry.dtype) obstacle("it returns memory that it was given as another element type");
    if (!ref.requires_grad || storages_[ref.storage].root == kNoValue) return nullptr;
    auto view = std::make_shared<ir::Graph>();
    view->name = "view";
    view->values = out_.graph.values;
    ValueId value = storages_.read(ref);
    if (out_.graph.values[value].alias_of == kNoValue && ref.geometry == e.ref.geometry) {
      bool is_input =
          std::any_of(out_.graph.inputs.begin(), out_.graph.inputs.end(), [&](const ir::Input& in) { return in.value == value; });
      if (storages_[ref.storage].written_in_grad_mode || (!is_input && ref.handle >= 0))
        obstacle("it returns a tensor that it was given, wrote to, and that requires grad");
      return nullptr;
    }
    view->outputs = {value};
    while (out_.graph.values[value].alias_of != kNoValue) {
      for (const ir::Node& node : out_.graph.nodes)
        ir::for_each_definition(node, [&](ValueId id) {
          if (id == value) view->nodes.insert(view->nodes.begin(), node);
        });
      value = out_.graph.values[value].alias_of;
    }
    view->values = out_.graph.values;
    view->inputs.push_back({value, ir::InputRole::argument, e.name});
    for (size_t i = 0; i < out_.graph.inputs.size(); ++i)
      if (out_.graph.inputs[i].value == value && out_.inputs[i].external == external && !out_.inputs[i].whole_storage) return view;
    obstacle("it returns a view of something that requires grad and that it wrote to");
    return nullptr;
  }

  int32_t external_for(const TensorRef& ref) {
    int32_t found = -1;
    auto fits = [&](int32_t i) {
      const TensorRef& e = tape_.externals[i].ref;
      return (e.geometry == ref.geometry) * 2 + (e.requires_grad == ref.requires_grad);
    };
    for (int32_t i : storages_.externals_on(ref.storage))
      if (found < 0 || fits(i) > fits(found)) found = i;
    if (found < 0) obstacle("a result on memory that was allocated before a break");
    return found;
  }

  void start_backward(const std::vector<TensorRef>& refs, size_t forward) {
    bind_results(refs, 0, forward);
    out_.graph.backward_start = out_.graph.nodes.size();
    out_.graph.forward_write_backs = write_backs();
  }

  std::vector<ir::WriteBack> write_backs() const {
    std::vector<ir::WriteBack> out;
    std::vector<std::vector<ValueId>> inputs_on(storages_.size());
    for (size_t i = 0; i < out_.graph.inputs.size(); ++i) inputs_on[out_.inputs[i].storage].push_back(out_.graph.inputs[i].value);
    for (size_t s = 0; s < storages_.size(); ++s) {
      const StorageState& state = storages_[s];
      if (!state.external || !state.written || state.root == kNoValue) continue;
      for (ValueId input : inputs_on[s])
        if (input != state.root) out.push_back({input, state.root});
    }
    return out;
  }

  // Propagates requires_grad through the ops that ran in grad mode.
  void spread_requires_grad() {
    ir::Graph& g = out_.graph;
    for (size_t i = 0; i < std::min(g.nodes.size(), g.backward_start); ++i) {
      const ir::Node& node = g.nodes[i];
      bool grad = false;
      ir::for_each_operand(node, [&](ValueId id) { grad |= g.values[id].requires_grad; });
      const ops::Facts* facts = ops::find(node.op);
      bool makes_plain = node.op == "aten::detach" || (facts && facts->uninitialized);  // `empty_like` reads only sizes.
      if (grad && !node.no_grad && !makes_plain)
        ir::for_each_definition(node, [&](ValueId id) { g.values[id].requires_grad |= g.values[id].type.dtype <= ir::DType::bf16; });
    }
  }

  // Inserts detach() where a value that requires grad is used through a tensor that does not (`x.data()`).
  void detach_plain_uses() {
    if (plain_uses_.empty()) return;
    spread_requires_grad();
    std::vector<size_t> node_of(range_.end, 0);
    for (auto [op, node] : node_of_op_) node_of[op] = node;
    std::vector<std::vector<ir::Node>> before(out_.graph.nodes.size());
    for (const PlainUse& use : plain_uses_) {
      size_t at = node_of[use.node];
      ir::Node& node = out_.graph.nodes[at];
      ValueId* id = std::get_if<ValueId>(&node.args[use.argument]);
      if (!id)
        if (auto* list = std::get_if<ir::ValueList>(&node.args[use.argument])) id = &list->ids[use.item];
      if (!id || *id == kNoValue || !out_.graph.values[*id].requires_grad) continue;
      bool is_written = std::any_of(node.writes.begin(), node.writes.end(), [&](const auto& w) { return w.before == *id; });
      bool is_viewed = false;
      ir::for_each_definition(node, [&](ValueId d) { is_viewed |= out_.graph.values[d].alias_of == *id; });
      if (is_written || is_viewed) {
        breaks_autograd = true;
        continue;
      }
      ir::Node detach;
      detach.op = "aten::detach";
      detach.args = {*id};
      ValueId plain = out_.graph.add_value(out_.graph.values[*id].type, *id);
      detach.results.push_back({false, {plain}});
      *id = plain;
      before[at].push_back(std::move(detach));
    }
    std::vector<ir::Node> nodes;
    size_t backward = out_.graph.backward_start;
    for (size_t i = 0; i < out_.graph.nodes.size(); ++i) {
      if (i == backward) out_.graph.backward_start = nodes.size();
      for (ir::Node& node : before[i]) nodes.push_back(std::move(node));
      nodes.push_back(std::move(out_.graph.nodes[i]));
    }
    if (backward != SIZE_MAX && backward >= before.size()) out_.graph.backward_start = nodes.size();
    out_.graph.nodes = std::move(nodes);
  }

 public:
  bool breaks_autograd = false;

 private:
  const Tape& tape_;
  TapeRange range_;
  Functional out_;
  StorageValues storages_;
  std::vector<PlainUse> plain_uses_;
  size_t first_output_ = 0;  // Index of the first graph output of the forward or backward that is being bound.
  std::vector<std::pair<size_t, size_t>> node_of_op_;
};

}  // namespace

ir::FixedType to_type(const Geometry& geometry) {
  return {bridge::to_dtype(geometry.dtype), geometry.sizes_vector(), geometry.strides_vector(), geometry.offset};
}

Functional functionalize(const Tape& tape, TapeRange range, const ProgramResults& results, const std::string& name) {
  Functionalizer functionalizer(tape, range, name);
  Functional out = functionalizer.run(results);
  // Obstacles of the whole tape do not concern a range of a replay: the ops that cause them run immediately.
  if (!range.by_storage)
    for (const std::string& text : tape.obstacles) out.obstacles.push_back(text);
  out.plain_autograd = !functionalizer.breaks_autograd;
  return out;
}

}  // namespace tenon::capture
