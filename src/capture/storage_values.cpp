#include "capture/storage_values.h"

#include <algorithm>

#include "ir/graph/overlap.h"

namespace tenon::capture {
namespace {

using ir::kNoValue;
using ir::ValueId;

ir::InputRole role_of(External::Kind kind) {
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

// Whether both tensors consist of the same elements of a storage in the same order.
bool have_same_elements(const Geometry& a, const Geometry& b) {
  auto is_contiguous = [](const Geometry& g) { return g.strides_vector() == ir::contiguous_strides(g.sizes_vector()); };
  return a.dtype == b.dtype && a.offset == b.offset && numel(a) == numel(b) && is_contiguous(a) && is_contiguous(b);
}

}  // namespace

void add_obstacle(Functional& out, std::string text) {
  if (std::find(out.obstacles.begin(), out.obstacles.end(), text) == out.obstacles.end()) out.obstacles.push_back(std::move(text));
}

int64_t numel(const Geometry& geometry) {
  int64_t n = 1;
  for (int64_t size : geometry.sizes) n *= size;
  return n;
}

StorageValues::StorageValues(const Tape& tape, const TapeRange& range, Functional& out) : tape_(tape), range_(range), out_(out) {
  out_.offset_matters.assign(tape.externals.size(), false);
  externals_on_.resize(tape.storages.size());
  for (size_t i = 0; i < tape.externals.size(); ++i)
    if (tape.externals[i].ref.defined()) externals_on_[tape.externals[i].ref.storage].push_back(static_cast<int32_t>(i));
  handles_.resize(tape.handles);
  states_.resize(tape.storages.size());
  for (size_t s = 0; s < states_.size(); ++s) {
    int32_t made_by = tape.storages[s].made_by;
    bool is_before_end = static_cast<size_t>(made_by) < range_.end;  // A tape that is being derived has no later ops yet.
    states_[s].external =
        made_by < static_cast<int32_t>(range_.begin) || (range_.by_storage && is_before_end && tape.ops[made_by].immediate);
  }
  for (size_t i = range_.begin; i < range_.end; ++i) {
    if (is_excluded(tape_, range_, i)) continue;
    for (const TapeWrite& write : tape.ops[i].writes) states_[write.ref.storage].written = true;
  }
  if (range_.by_storage) find_ops_on_written();
}

void StorageValues::find_ops_on_written() {
  ops_on_.resize(states_.size());
  for (size_t i = range_.begin; i < range_.end; ++i) {
    if (is_excluded(tape_, range_, i)) continue;
    for_each_ref(tape_.ops[i], [&](const TensorRef& ref) {
      if (!ref.defined() || !states_[ref.storage].written) return;
      std::vector<size_t>& ops = ops_on_[ref.storage];
      if (ops.empty() || ops.back() != i) ops.push_back(i);
    });
  }
}

ValueId StorageValues::add_input(const Geometry& geometry, InputBinding binding, ir::InputRole role, const std::string& name, bool grad) {
  ValueId value = out_.graph.add_value(to_type(geometry), kNoValue, grad);
  out_.graph.inputs.push_back({value, role, name});
  out_.inputs.push_back(binding);
  return value;
}

ValueId StorageValues::input_for_external(int32_t index) {
  const External& e = tape_.externals[index];
  return add_input(e.ref.geometry, {.external = index, .storage = e.ref.storage}, role_of(e.kind), e.name, e.ref.requires_grad);
}

// Finds the external with this geometry, or -1. If both `x` and `x.detach()` match, it is the one that requires grad.
int32_t StorageValues::external_at(int32_t storage, const Geometry& geometry) const {
  int32_t found = -1;
  for (int32_t i : externals_on_[storage]) {
    const TensorRef& ref = tape_.externals[i].ref;
    if (ref.geometry == geometry && (found < 0 || (ref.requires_grad && !tape_.externals[found].ref.requires_grad))) found = i;
  }
  return found;
}

// Makes the graph input for an external storage at its first use.
void StorageValues::open_external(int32_t storage, const Geometry& wanted) {
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

ValueId StorageValues::input_on(int32_t storage, const Geometry& geometry, bool whole) {
  const std::vector<int32_t>& known = externals_on_[storage];
  std::string name = known.empty() ? "made earlier " + std::to_string(storage) : tape_.externals[known.front()].name;
  ir::InputRole role = known.empty() ? ir::InputRole::state : role_of(tape_.externals[known.front()].kind);
  return add_input(geometry, {.whole_storage = whole, .storage = storage}, role, name, false);
}

// A geometry that all other tensors on this storage are views of.
Geometry StorageValues::covering_geometry(int32_t storage, const Geometry& wanted) {
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

Geometry StorageValues::flat_geometry(int32_t storage, at::ScalarType dtype) const {
  Geometry flat;
  flat.dtype = dtype;
  flat.sizes.push_back(static_cast<int64_t>(tape_.storages[storage].bytes / c10::elementSize(dtype)));
  flat.strides.push_back(1);
  return flat;
}

void StorageValues::open_whole_storage(int32_t storage, const std::vector<int32_t>& on_storage) {
  StorageState& state = states_[storage];
  at::ScalarType dtype = tape_.externals[on_storage.front()].ref.geometry.dtype;
  for (int32_t i : on_storage) {
    out_.offset_matters[i] = true;
    if (tape_.externals[i].ref.geometry.dtype != dtype)
      add_obstacle(out_, "tensors of different element types share memory that is written");
  }
  state.root_geometry = flat_geometry(storage, dtype);
  state.root = add_input(state.root_geometry, {on_storage.front(), true, storage}, ir::InputRole::state,
                         "storage of " + tape_.externals[on_storage.front()].name, false);
}

void StorageValues::set_offset_matters(int32_t storage) {
  for (int32_t i : externals_on_[storage]) out_.offset_matters[i] = true;
}

ValueId StorageValues::read(const TensorRef& ref) {
  StorageState& state = states_[ref.storage];
  if (ref.handle >= 0) {
    const HandleValue& known = handles_[ref.handle];
    if (known.value != kNoValue && known.storage == ref.storage && known.version == state.version &&
        out_.graph.values[known.value].type == to_type(ref.geometry))
      return mark_requires_grad(known.value, ref);
  }
  for (const AliasValue& alias : state.aliases)
    if (alias.geometry == ref.geometry && !lacks_history(alias.value, ref)) return mark_requires_grad(alias.value, ref);
  if (state.root == kNoValue) {
    if (!state.external) add_obstacle(out_, "memory that no recorded op allocated");
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
      return mark_requires_grad(state.aliases.back().value, ref);
    }
  return mark_requires_grad(view_of_root(ref), ref);
}

// A view of a detached argument may have the geometry of another argument, which requires grad.
bool StorageValues::lacks_history(ValueId value, const TensorRef& ref) const {
  const StorageState& state = states_[ref.storage];
  if (!ref.requires_grad || out_.graph.values[value].requires_grad || state.written || !state.external || range_.by_storage) return false;
  int32_t external = external_at(ref.storage, ref.geometry);
  return external >= 0 && tape_.externals[external].ref.requires_grad;
}

// Sets requires_grad on a value if the program used it through a tensor that requires grad.
ValueId StorageValues::mark_requires_grad(ValueId value, const TensorRef& ref) {
  if (ref.requires_grad) out_.graph.values[value].requires_grad = true;
  return value;
}

ValueId StorageValues::view_of_root(const TensorRef& ref) {
  StorageState& state = states_[ref.storage];
  if (state.root_geometry.dtype != ref.geometry.dtype) add_obstacle(out_, "memory that is used with two element types and written");
  if (state.external) set_offset_matters(ref.storage);
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

void StorageValues::fill(StorageState& state, const Geometry& region) {
  if (!state.unfilled) return;
  for (const Geometry& known : state.filled_geometries) {
    if (known == region) return;
    if (ir::may_overlap(to_type(known), to_type(region))) return;
  }
  state.filled_geometries.push_back(region);
  state.filled += numel(region);
  if (state.filled >= numel(state.root_geometry)) state.unfilled = false;
}

void StorageValues::check_filled(const TensorRef& ref) {
  StorageState& state = states_[ref.storage];
  if (!state.unfilled || numel(ref.geometry) == 0) return;
  for (const Geometry& known : state.filled_geometries)
    if (known == ref.geometry) return;
  add_obstacle(out_, "a tensor that the host filled (torch::tensor of a vector, or data_ptr writes)");
}

void StorageValues::apply_write(const TapeWrite& write, ValueId after, const TapeOp& op) {
  const TensorRef& ref = write.ref;
  StorageState& state = states_[ref.storage];
  ++state.version;
  state.written_in_grad_mode |= !op.no_grad && !op.in_backward;
  if (write.argument == op.overwrites || op.op.schema().arguments()[write.argument].is_out()) fill(state, ref.geometry);
  // `matmul(x, w).add_(bias)` with a 3-D x writes through a view of the product. The input of an external storage keeps its sizes, since
  // the final contents are written back to it.
  if (ref.geometry == state.root_geometry || (!state.external && have_same_elements(ref.geometry, state.root_geometry))) {
    state.root = after;
    state.root_geometry = ref.geometry;
    state.aliases.assign(1, {ref.geometry, after});
    return;
  }
  if (state.root_geometry.dtype != ref.geometry.dtype) add_obstacle(out_, "memory that is used with two element types and written");
  if (state.external) set_offset_matters(ref.storage);
  ir::Node node;
  node.op = "aten::as_strided_scatter";
  node.args = {state.root, after, ir::Attribute(ref.geometry.sizes_vector()), ir::Attribute(ref.geometry.strides_vector()),
               ir::Attribute(ref.geometry.offset)};
  ValueId root = out_.graph.add_value(to_type(state.root_geometry));
  node.results.push_back({false, {root}});
  out_.graph.nodes.push_back(std::move(node));
  state.root = root;
  ir::FixedType region = to_type(ref.geometry);
  std::erase_if(state.aliases, [&](const AliasValue& a) { return ir::may_overlap(to_type(a.geometry), region); });
  state.aliases.push_back({state.root_geometry, root});
  state.aliases.push_back({ref.geometry, after});
}

}  // namespace tenon::capture
