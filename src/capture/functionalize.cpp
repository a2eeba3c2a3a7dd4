#include "capture/functionalize.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "bridge/convert.h"
#include "ir/graph/overlap.h"
#include "ops/table.h"

namespace tenon::capture {
namespace {

using ir::kNoValue;
using ir::ValueId;

struct Alias {
  Geometry geometry;
  ValueId value;
};

struct StorageState {
  ValueId root = kNoValue;
  Geometry root_geometry;
  std::vector<Alias> aliases;  // values that hold the current contents, the root's among them
  int32_t version = 0;         // writes so far
  bool written_live = false;   // in grad mode
  bool external = false;
  bool written = false;   // anywhere in the range
  bool unfilled = false;  // born empty and not yet filled by the program
  int64_t filled = 0;
  std::vector<Geometry> filled_parts;
};

// The value that a tensor object stood for, as of one version of its storage.
struct HandleValue {
  ValueId value = kNoValue;
  int32_t storage = -1;
  int32_t version = 0;
};

// A use of a value as something that does not require grad, in grad mode.
struct PlainUse {
  size_t node;
  size_t argument;
  size_t item;
};

int64_t numel(const Geometry& g) {
  int64_t n = 1;
  for (int64_t size : g.sizes) n *= size;
  return n;
}

class Functionalizer {
 public:
  Functionalizer(const Tape& tape, TapeRange range, const std::string& name) : tape_(tape), range_(range) {
    range_.end = std::min(range_.end, tape.ops.size());
    out_.graph.name = identifier(name);
    out_.offset_matters.assign(tape.externals.size(), false);
    externals_on_.resize(tape.storages.size());
    for (size_t i = 0; i < tape.externals.size(); ++i)
      if (tape.externals[i].ref.defined()) externals_on_[tape.externals[i].ref.storage].push_back(static_cast<int32_t>(i));
    handles_.resize(tape.handles);
    states_.resize(tape.storages.size());
    for (size_t s = 0; s < states_.size(); ++s) {
      int32_t born = tape.storages[s].born;
      states_[s].external = born < static_cast<int32_t>(range_.begin) || (range_.by_storage && tape.ops[born].immediate);
    }
    for (size_t i = range_.begin; i < range_.end; ++i) {
      if (left_out(i)) continue;
      for (const TapeWrite& write : tape.ops[i].writes) states_[write.ref.storage].written = true;
    }
    if (range_.by_storage) find_ops_on_written();
  }

  Functional run(const Results& results) {
    size_t forward = std::min(results.forward, results.refs.size());
    bool joint = range_.backward_start != SIZE_MAX;
    for (size_t i = range_.begin; i < range_.end; ++i) {
      if (i == range_.backward_start) start_backward(results.refs, forward);
      if (!left_out(i)) emit(i);
    }
    if (joint && range_.backward_start >= range_.end) start_backward(results.refs, forward);
    if (!joint) bind_results(results.refs, 0, forward);
    bind_results(results.refs, forward, results.refs.size());
    out_.graph.write_backs = write_backs();
    detach_plain_uses();
    return std::move(out_);
  }

 private:
  void obstacle(std::string text) {
    if (std::find(out_.obstacles.begin(), out_.obstacles.end(), text) == out_.obstacles.end()) out_.obstacles.push_back(std::move(text));
  }

  void find_ops_on_written() {
    ops_on_.resize(states_.size());
    for (size_t i = range_.begin; i < range_.end; ++i) {
      if (left_out(i)) continue;
      for_each_ref(tape_.ops[i], [&](const TensorRef& ref) {
        if (!ref.defined() || !states_[ref.storage].written) return;
        std::vector<size_t>& ops = ops_on_[ref.storage];
        if (ops.empty() || ops.back() != i) ops.push_back(i);
      });
    }
  }

  bool left_out(size_t op) const { return range_.by_storage && tape_.ops[op].immediate; }

  // ---- storages ----

  ValueId add_input(const Geometry& geometry, InputBinding binding, ir::InputRole role, const std::string& name, bool grad) {
    ValueId value = out_.graph.add_value(to_type(geometry), kNoValue, grad);
    out_.graph.inputs.push_back({value, role, name});
    out_.inputs.push_back(binding);
    return value;
  }

  static ir::InputRole role_of(External::Kind kind) {
    switch (kind) {
      case External::Kind::argument:
        return ir::InputRole::argument;
      case External::Kind::gradient:
        return ir::InputRole::gradient;
      case External::Kind::tangent:
        return ir::InputRole::tangent;
      default:
        return ir::InputRole::state;
    }
  }

  ValueId input_for_external(int32_t index) {
    const External& e = tape_.externals[index];
    return add_input(e.ref.geometry, {.external = index, .storage = e.ref.storage}, role_of(e.kind), e.name, e.ref.requires_grad);
  }

  // The external with this place and shape, or -1. Of `x` and `x.detach()` it is the one with a history.
  int32_t external_at(int32_t storage, const Geometry& geometry) const {
    int32_t found = -1;
    for (int32_t i : externals_on_[storage]) {
      const TensorRef& ref = tape_.externals[i].ref;
      if (ref.geometry == geometry && (found < 0 || (ref.requires_grad && !tape_.externals[found].ref.requires_grad))) found = i;
    }
    return found;
  }

  // First use of an external storage: makes the input that holds it.
  void open_external(int32_t storage, const Geometry& wanted) {
    StorageState& state = states_[storage];
    const std::vector<int32_t>& on_storage = externals_on_[storage];
    if (range_.by_storage) {
      state.root_geometry = state.written ? covering_geometry(storage, wanted) : wanted;
      state.root = input_on(storage, state.root_geometry, !(state.root_geometry == wanted));
    } else {
      int32_t first = state.written ? -1 : external_at(storage, wanted);
      if (first < 0) first = external_at(storage, tape_.externals[on_storage.front()].ref.geometry);
      bool several = false;
      for (int32_t i : on_storage) several |= !(tape_.externals[i].ref.geometry == tape_.externals[first].ref.geometry);
      several |= ir::may_overlap_itself(to_type(tape_.externals[first].ref.geometry));
      if (several && state.written) {
        open_whole_storage(storage, on_storage);
      } else {
        state.root_geometry = tape_.externals[first].ref.geometry;
        state.root = input_for_external(first);
      }
    }
    state.aliases.push_back({state.root_geometry, state.root});
  }

  ValueId input_on(int32_t storage, const Geometry& geometry, bool whole) {
    const std::vector<int32_t>& known = externals_on_[storage];
    std::string name = known.empty() ? "made earlier " + std::to_string(storage) : tape_.externals[known.front()].name;
    ir::InputRole role = known.empty() ? ir::InputRole::state : role_of(tape_.externals[known.front()].kind);
    return add_input(geometry, {.whole_storage = whole, .storage = storage}, role, name, false);
  }

  // One geometry from which all others on this memory can be taken.
  Geometry covering_geometry(int32_t storage, const Geometry& wanted) {
    bool one = !ir::may_overlap_itself(to_type(wanted));
    auto bytes = static_cast<int64_t>(tape_.storages[storage].bytes);
    std::optional<Geometry> dense;
    auto look = [&](const TensorRef& ref) {
      if (ref.storage != storage) return;
      one &= ref.geometry == wanted;
      const Geometry& g = ref.geometry;
      bool all = g.offset == 0 && numel(g) * static_cast<int64_t>(c10::elementSize(g.dtype)) == bytes;
      if (all && g.strides_vector() == ir::contiguous_strides(g.sizes_vector())) dense = g;
    };
    for (size_t i : ops_on_[storage]) for_each_ref(tape_.ops[i], look);
    if (one) return wanted;
    if (dense) return *dense;
    return flat_geometry(storage, wanted.dtype);
  }

  Geometry flat_geometry(int32_t storage, at::ScalarType dtype) const {
    Geometry flat;
    flat.dtype = dtype;
    flat.sizes.push_back(static_cast<int64_t>(tape_.storages[storage].bytes / c10::elementSize(dtype)));
    flat.strides.push_back(1);
    return flat;
  }

  void open_whole_storage(int32_t storage, const std::vector<int32_t>& on_storage) {
    StorageState& state = states_[storage];
    at::ScalarType dtype = tape_.externals[on_storage.front()].ref.geometry.dtype;
    for (int32_t i : on_storage) {
      out_.offset_matters[i] = true;
      if (tape_.externals[i].ref.geometry.dtype != dtype) obstacle("tensors of different element types share memory that is written");
    }
    state.root_geometry = flat_geometry(storage, dtype);
    state.root = add_input(state.root_geometry, {on_storage.front(), true, storage}, ir::InputRole::state,
                           "storage of " + tape_.externals[on_storage.front()].name, false);
  }

  void offset_matters(int32_t storage) {
    for (int32_t i : externals_on_[storage]) out_.offset_matters[i] = true;
  }

  ValueId read(const TensorRef& ref) {
    StorageState& state = states_[ref.storage];
    if (ref.handle >= 0) {
      const HandleValue& known = handles_[ref.handle];
      if (known.value != kNoValue && known.storage == ref.storage && known.version == state.version &&
          out_.graph.values[known.value].type == to_type(ref.geometry))
        return noted(known.value, ref);
    }
    for (const Alias& alias : state.aliases)
      if (alias.geometry == ref.geometry && !lacks_history(alias.value, ref)) return noted(alias.value, ref);
    if (state.root == kNoValue) {
      if (!state.external) obstacle("memory that no op of the program made");
      open_external(ref.storage, ref.geometry);
      return read(ref);
    }
    if (!state.written && range_.by_storage && state.external) {
      state.aliases.push_back({ref.geometry, input_on(ref.storage, ref.geometry, /*whole=*/false)});
      return state.aliases.back().value;
    }
    if (!state.written && state.external)
      if (int32_t i = external_at(ref.storage, ref.geometry); i >= 0) {
        state.aliases.push_back({ref.geometry, input_for_external(i)});
        return noted(state.aliases.back().value, ref);
      }
    return noted(view_of_root(ref), ref);
  }

  // A view of a detached argument may look like another argument, which has a history.
  bool lacks_history(ValueId value, const TensorRef& ref) const {
    const StorageState& state = states_[ref.storage];
    if (!ref.requires_grad || out_.graph.values[value].requires_grad || state.written || !state.external || range_.by_storage) return false;
    int32_t external = external_at(ref.storage, ref.geometry);
    return external >= 0 && tape_.externals[external].ref.requires_grad;
  }

  // What is read requires grad from here on if the program saw it so.
  ValueId noted(ValueId value, const TensorRef& ref) {
    if (ref.requires_grad) out_.graph.values[value].requires_grad = true;
    return value;
  }

  ValueId view_of_root(const TensorRef& ref) {
    StorageState& state = states_[ref.storage];
    if (state.root_geometry.dtype != ref.geometry.dtype) obstacle("memory that is seen as two element types and written");
    if (state.external) offset_matters(ref.storage);
    ir::Node node;
    node.op = "aten::as_strided";
    node.args = {state.root, ir::Attribute(ref.geometry.sizes_vector()), ir::Attribute(ref.geometry.strides_vector()),
                 ir::Attribute(ref.geometry.offset)};
    ValueId value = out_.graph.add_value(to_type(ref.geometry), state.root);
    node.results.push_back({false, {value}});
    out_.graph.nodes.push_back(std::move(node));
    state.aliases.push_back({ref.geometry, value});
    return value;
  }

  // ---- memory that the host may have filled ----

  void fill(StorageState& state, const Geometry& part) {
    if (!state.unfilled) return;
    for (const Geometry& known : state.filled_parts) {
      if (known == part) return;
      if (ir::may_overlap(to_type(known), to_type(part))) return;
    }
    state.filled_parts.push_back(part);
    state.filled += numel(part);
    if (state.filled >= numel(state.root_geometry)) state.unfilled = false;
  }

  void check_filled(const TensorRef& ref) {
    StorageState& state = states_[ref.storage];
    if (!state.unfilled || numel(ref.geometry) == 0) return;
    for (const Geometry& known : state.filled_parts)
      if (known == ref.geometry) return;
    obstacle("a tensor that the host filled (torch::tensor of a vector, or data_ptr writes)");
  }

  void check_operands_filled(const TapeOp& op) {
    bool is_view = op.writes.empty() && !op.results.empty();
    auto check = [&](const TensorRef& ref) {
      if (ref.defined()) check_filled(ref);
    };
    for (const TapeResult& result : op.results)
      for (const TensorRef& item : result.items) is_view &= item.defined() && states_[item.storage].root != kNoValue;
    if (is_view) return;  // only looks at sizes and strides
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
    if (range_.by_storage && free_scalar(op, arg)) return scalar(op, index);
    bool live = !op.no_grad && !op.in_backward;
    auto operand = [&](const TensorRef& ref, size_t item) -> ValueId {
      if (!ref.defined()) return kNoValue;
      ValueId value = read(ref);
      if (live && !ref.requires_grad) plain_uses_.push_back({node_index, index, item});
      return value;
    };
    if (const auto* ref = std::get_if<TensorRef>(&arg)) {
      if (ref->defined())
        for (int32_t i : externals_on_[ref->storage])
          if (tape_.externals[i].is_number()) return ir::Attribute(*tape_.externals[i].number);
      return operand(*ref, 0);
    }
    if (const auto* list = std::get_if<TensorListRef>(&arg)) {
      ir::ValueList values;
      for (size_t i = 0; i < list->items.size(); ++i) values.ids.push_back(operand(list->items[i], i));
      return values;
    }
    if (const auto* number = std::get_if<ir::NumberTensor>(&arg)) return ir::Attribute(*number);
    auto attribute = bridge::to_attribute(std::get<c10::IValue>(arg), out_.resources);
    if (!attribute) obstacle("an argument of " + op_name(op.op) + " without a text form");
    return attribute.value_or(ir::Attribute(ir::None{}));
  }

  // A number that each call may bring anew.
  ir::Argument scalar(const TapeOp& op, size_t index) {
    size_t number = op.before.scalars;
    for (size_t i = 0; i < index; ++i) number += free_scalar(op, op.args[i]).has_value();
    ir::Scalar scalar{static_cast<int32_t>(out_.scalars.size())};
    out_.scalars.push_back(static_cast<int32_t>(number));
    out_.graph.scalars.push_back(tape_.scalars[number]);
    const auto* tensor = std::get_if<ir::NumberTensor>(&op.args[index]);
    if (!tensor) return ir::Attribute(scalar);
    ir::NumberTensor held = *tensor;
    held.number = scalar;
    return ir::Attribute(held);
  }

  // The operand that lies on this storage.
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

  // An op that overwrites what another of its operands reads depends on the order in which its
  // kernel goes; only element by element on the very same elements is safe to do on a copy.
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

  // `t_()` and the like give their operand another shape: here it is a view of that shape.
  void view_instead(const TapeOp& op, ir::Node& node) {
    const TensorRef& ref = op.results[0].items[0];
    if (states_[ref.storage].external) offset_matters(ref.storage);
    obstacle_for_autograd = true;  // the gradient would have other strides
    ValueId operand = std::get<ValueId>(node.args[0]);
    node.op = "aten::as_strided";
    node.args = {operand, ir::Attribute(ref.geometry.sizes_vector()), ir::Attribute(ref.geometry.strides_vector()),
                 ir::Attribute(ref.geometry.offset)};
  }

  // as_strided counts from the start of the storage, not of its operand.
  void note_offset(const TapeOp& op) {
    if (op.op.operator_name().name.rfind("aten::as_strided", 0) != 0) return;
    const auto& ref = std::get<TensorRef>(op.args[0]);
    if (states_[ref.storage].external) offset_matters(ref.storage);
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
            StorageState& state = states_[ref.storage];
            bool is_new = state.root == kNoValue && !state.external;
            ValueId alias = is_new ? kNoValue : operand_on(op, node, ref.storage);
            if (!is_new && alias == kNoValue) obstacle(node.op + " returns memory that is not one of its operands");
            value = out_.graph.add_value(to_type(ref.geometry), alias);
            fresh.push_back({ref, value});
            if (is_new) {
              state.root = value;
              state.root_geometry = ref.geometry;
              state.unfilled = op.births && numel(ref.geometry) > 0;
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
      // Where two values look alike (`h` and `h.detach()`) the first one stands for both.
      auto& aliases = states_[f.ref.storage].aliases;
      if (std::none_of(aliases.begin(), aliases.end(), [&](const Alias& a) { return a.geometry == f.ref.geometry; }))
        aliases.push_back({f.ref.geometry, f.value});
    }
    for (size_t i = 0; i < writes.size(); ++i) apply_write(op.writes[i], writes[i].after, op);
    for (size_t r = 0; r < results.size(); ++r)
      for (size_t i = 0; i < results[r].ids.size(); ++i)
        if (const TensorRef& ref = op.results[r].items[i]; ref.handle >= 0)
          handles_[ref.handle] = {results[r].ids[i], ref.storage, states_[ref.storage].version};
  }

  ValueId written_result(const TapeOp& op, const ir::Node& node, const TensorRef& ref) const {
    for (size_t i = 0; i < op.writes.size(); ++i)
      if (op.writes[i].ref.storage == ref.storage && op.writes[i].ref.geometry == ref.geometry) return node.writes[i].after;
    return kNoValue;
  }

  void apply_write(const TapeWrite& write, ValueId after, const TapeOp& op) {
    const TensorRef& ref = write.ref;
    StorageState& state = states_[ref.storage];
    ++state.version;
    state.written_live |= !op.no_grad && !op.in_backward;
    if (write.argument == op.overwrites || op.op.schema().arguments()[write.argument].is_out()) fill(state, ref.geometry);
    if (ref.geometry == state.root_geometry) {
      state.root = after;
      state.aliases.assign(1, {ref.geometry, after});
      return;
    }
    if (state.root_geometry.dtype != ref.geometry.dtype) obstacle("memory that is seen as two element types and written");
    if (state.external) offset_matters(ref.storage);
    ir::Node node;
    node.op = "aten::as_strided_scatter";
    node.args = {state.root, after, ir::Attribute(ref.geometry.sizes_vector()), ir::Attribute(ref.geometry.strides_vector()),
                 ir::Attribute(ref.geometry.offset)};
    ValueId root = out_.graph.add_value(to_type(state.root_geometry));
    node.results.push_back({false, {root}});
    out_.graph.nodes.push_back(std::move(node));
    state.root = root;
    ir::TensorType part = to_type(ref.geometry);
    std::erase_if(state.aliases, [&](const Alias& a) { return ir::may_overlap(to_type(a.geometry), part); });
    state.aliases.push_back({state.root_geometry, root});
    state.aliases.push_back({ref.geometry, after});
  }

  // ---- the end ----

  int32_t output(ValueId value) {
    auto& outputs = out_.graph.outputs;
    auto it = std::find(outputs.begin() + static_cast<ptrdiff_t>(group_), outputs.end(), value);
    if (it != outputs.end()) return static_cast<int32_t>(it - outputs.begin());
    outputs.push_back(value);
    return static_cast<int32_t>(outputs.size() - 1);
  }

  void bind_results(const std::vector<TensorRef>& refs, size_t begin, size_t end) {
    group_ = out_.graph.outputs.size();
    std::unordered_map<int32_t, std::vector<size_t>> on_storage;
    for (size_t i = begin; i < end; ++i) on_storage[refs[i].storage].push_back(i);
    for (size_t i = begin; i < end; ++i) out_.results.push_back(bind_result(i, refs, on_storage.at(refs[i].storage)));
    if (begin == 0) out_.forward_outputs = out_.graph.outputs.size();
  }

  // `beside`: the results on the same storage, this one among them.
  ResultBinding bind_result(size_t index, const std::vector<TensorRef>& all, const std::vector<size_t>& beside) {
    const TensorRef& ref = all[index];
    ResultBinding binding;
    if (!ref.defined()) return binding;
    StorageState& state = states_[ref.storage];
    binding.geometry = ref.geometry;
    if (state.external) {
      binding.kind = ResultBinding::Kind::external;
      binding.index = external_for(ref);
      if (binding.index >= 0) binding.view = view_of_external(ref, binding.index);
      return binding;
    }
    check_filled(ref);
    // Results on one memory are all taken from its root, the first of that shape as it is.
    bool shared = beside.size() > 1, first = true;
    for (size_t i : beside)
      if (i < index && all[i].geometry == state.root_geometry) first = false;
    if (shared && ref.geometry.dtype != state.root_geometry.dtype) obstacle("it returns one memory as two element types");
    ValueId value = shared ? state.root : read(ref);
    if (ref.requires_grad) out_.graph.values[value].requires_grad = true;
    bool is_part = shared && !(first && ref.geometry == state.root_geometry);
    binding.kind = is_part ? ResultBinding::Kind::view_of_output : ResultBinding::Kind::output;
    binding.index = output(value);
    return binding;
  }

  // The views that lead from an external to a result on its memory, as a graph of their own: taken
  // again under autograd they give the result its history.
  std::shared_ptr<const ir::Graph> view_of_external(const TensorRef& ref, int32_t external) {
    const External& e = tape_.externals[external];
    if (ref.geometry.dtype != e.ref.geometry.dtype) obstacle("it returns memory that it was given as another element type");
    if (!ref.requires_grad || states_[ref.storage].root == kNoValue) return nullptr;
    auto view = std::make_shared<ir::Graph>();
    view->name = "view";
    view->values = out_.graph.values;
    ValueId value = read(ref);
    if (out_.graph.values[value].alias_of == kNoValue && ref.geometry == e.ref.geometry) {
      bool is_input =
          std::any_of(out_.graph.inputs.begin(), out_.graph.inputs.end(), [&](const ir::Input& in) { return in.value == value; });
      if (states_[ref.storage].written_live || (!is_input && ref.handle >= 0))
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
    for (int32_t i : externals_on_[ref.storage])
      if (found < 0 || fits(i) > fits(found)) found = i;
    if (found < 0) obstacle("a result on memory of an earlier part");
    return found;
  }

  void start_backward(const std::vector<TensorRef>& refs, size_t forward) {
    bind_results(refs, 0, forward);
    out_.graph.backward_start = out_.graph.nodes.size();
    out_.graph.forward_write_backs = write_backs();
  }

  std::vector<ir::WriteBack> write_backs() const {
    std::vector<ir::WriteBack> out;
    std::vector<std::vector<ValueId>> inputs_on(states_.size());
    for (size_t i = 0; i < out_.graph.inputs.size(); ++i) inputs_on[out_.inputs[i].storage].push_back(out_.graph.inputs[i].value);
    for (size_t s = 0; s < states_.size(); ++s) {
      const StorageState& state = states_[s];
      if (!state.external || !state.written || state.root == kNoValue) continue;
      for (ValueId input : inputs_on[s])
        if (input != state.root) out.push_back({input, state.root});
    }
    return out;
  }

  // Whatever a live op makes of something that requires grad may require grad too, whether or not
  // the program used it so.
  void spread_requires_grad() {
    ir::Graph& g = out_.graph;
    for (size_t i = 0; i < std::min(g.nodes.size(), g.backward_start); ++i) {
      const ir::Node& node = g.nodes[i];
      bool grad = false;
      ir::for_each_operand(node, [&](ValueId id) { grad |= g.values[id].requires_grad; });
      const ops::Facts* facts = ops::find(node.op);
      bool makes_plain = node.op == "aten::detach" || (facts && facts->birth);  // `empty_like` takes sizes alone
      if (grad && !node.no_grad && !makes_plain)
        ir::for_each_definition(node, [&](ValueId id) { g.values[id].requires_grad |= g.values[id].type.dtype <= ir::DType::bf16; });
    }
  }

  // A value that requires grad, read as one that does not (`x.data()`): autograd must not see it.
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
        obstacle_for_autograd = true;
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
  bool obstacle_for_autograd = false;

 private:
  const Tape& tape_;
  TapeRange range_;
  Functional out_;
  std::vector<std::vector<int32_t>> externals_on_;  // per storage
  std::vector<StorageState> states_;
  std::vector<std::vector<size_t>> ops_on_;  // per storage that is written (by_storage)
  std::vector<HandleValue> handles_;
  std::vector<PlainUse> plain_uses_;
  size_t group_ = 0;  // first graph output of the part that is being bound
  std::vector<std::pair<size_t, size_t>> node_of_op_;
};

}  // namespace

ir::TensorType to_type(const Geometry& geometry) {
  return {bridge::to_dtype(geometry.dtype), geometry.sizes_vector(), geometry.strides_vector(), geometry.offset};
}

Functional functionalize(const Tape& tape, TapeRange range, const Results& results, const std::string& name) {
  Functionalizer functionalizer(tape, range, name);
  Functional out = functionalizer.run(results);
  // What stands against the tape as a whole does not matter to a part of a replay: it runs at once.
  if (!range.by_storage)
    for (const std::string& text : tape.obstacles) out.obstacles.push_back(text);
  out.plain_autograd = !functionalizer.obstacle_for_autograd;
  return out;
}

}  // namespace tenon::capture
