#include "capture/recorder.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/all.h>
#include <ATen/ops/eq.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include "base/error.h"
#include "base/per_thread.h"
#include "base/process.h"
#include "bridge/convert.h"
#include "capture/dispatch_state.h"
#include "capture/index_check.h"
#include "capture/source.h"
#include "capture/tensors.h"
#include "ops/table.h"

namespace tenon::capture {

// The properties of an op that the recorder uses, looked up once per op and thread.
struct OpTraits {
  const ops::Facts* table_entry = nullptr;
  std::string name;
  bool composite = false;
  bool random = false;
  bool dynamic_shape = false;  // The result's shape may depend on data.
  bool host_result = false;    // A result is not a tensor.
  bool no_result = false;
  bool foreign = false;      // A third-party op without pt2_compliant_tag, which must not be reordered.
  std::vector<bool> writes;  // One entry per argument.
};

namespace {

constexpr const char* kDisabledObstacle = "some of its ops run under tenon::disable or DisableScope";

bool is_tensor_type(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) return true;
  if (type.kind() == c10::TypeKind::OptionalType || type.kind() == c10::TypeKind::ListType) return is_tensor_type(*type.containedType(0));
  return false;
}

OpTraits look_up(const c10::OperatorHandle& op) {
  NoForkScope scope;
  OpTraits traits;
  const auto& schema = op.schema();
  traits.name = op_name(op);
  traits.table_entry = ops::find(traits.name);
  traits.composite = is_composite(op);
  traits.random = op.hasTag(at::Tag::nondeterministic_seeded) && !(traits.table_entry && traits.table_entry->draws_nothing);
  traits.dynamic_shape = op.hasTag(at::Tag::dynamic_output_shape);
  traits.no_result = schema.returns().empty();
  bool ours = traits.name.rfind("aten::", 0) == 0 || traits.name.rfind("tenon::", 0) == 0 || traits.name.rfind("prim", 0) == 0;
  traits.foreign = !ours && !op.hasTag(at::Tag::pt2_compliant_tag);
  bool views_in_place = op.hasTag(at::Tag::inplace_view);  // Changes sizes and strides, not contents.
  for (const auto& result : schema.returns()) traits.host_result |= !is_tensor_type(*result.type());
  for (const auto& argument : schema.arguments()) {
    traits.writes.push_back(!views_in_place && argument.alias_info() && argument.alias_info()->isWrite());
    traits.random |=
        argument.type()->str().find("Generator") != std::string::npos && !(traits.table_entry && traits.table_entry->uninitialized);
  }
  return traits;
}

bool has_mask(const Stack& stack, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    if (!stack[i].isOptionalTensorList() && !stack[i].isTensorList() && !stack[i].isList()) continue;
    for (const c10::IValue& item : stack[i].toListRef()) {
      if (!item.isTensor() || !item.toTensor().defined()) continue;
      auto type = item.toTensor().scalar_type();
      if (type == at::kBool || type == at::kByte) return true;
    }
  }
  return false;
}

}  // namespace

void GeneratorWatch::remember() {
  auto* generator = at::get_generator_or_default<at::CPUGeneratorImpl>(std::nullopt, at::detail::getDefaultCPUGenerator());
  at::mt19937_data_pod now = generator->engine().data();
  state_.assign(reinterpret_cast<const char*>(&now), sizeof now);
}

void GeneratorWatch::check(Tape& tape) {
  std::string before = state_;
  remember();
  if (state_ != before) tape.obstacles.push_back("it seeds the random generator inside");
}

const OpTraits& Recorder::traits_of(const c10::OperatorHandle& op) {
  auto& known = per_thread<std::unordered_map<const void*, OpTraits>>();
  const void* key = &op.schema();
  auto it = known.find(key);
  if (it == known.end()) it = known.emplace(key, look_up(op)).first;
  return it->second;
}

int32_t Recorder::storage_id(const at::Tensor& tensor) const {
  auto it = storages_.find(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  return it == storages_.end() ? -1 : it->second;
}

int32_t Recorder::assign_storage_id(const at::Tensor& tensor, int32_t made_by) {
  const auto& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  auto [it, fresh] = storages_.emplace(storage.unsafeGetStorageImpl(), static_cast<int32_t>(tape_.storages.size()));
  if (fresh) tape_.storages.push_back({storage.getWeakStorageImpl(), made_by, storage.nbytes()});
  return it->second;
}

bool Recorder::supported(const at::Tensor& tensor) {
  if (tensor.device().is_cpu() && !tensor._is_zerotensor() && tensor.layout() == at::kStrided && !tensor.is_quantized() &&
      !tensor.is_neg() && !tensor.is_conj() && has_memory(tensor.unsafeGetTensorImpl()) && bridge::has_dtype(tensor.scalar_type()))
    return true;
  tape_.obstacles.push_back("a tensor that is not a plain strided one (" + tensor.toString() + ")");
  return false;
}

int32_t Recorder::add_external(External::Kind kind, int32_t index, const std::string& name, const at::Tensor& tensor) {
  TensorRef ref;
  if (supported(tensor)) {
    ref.storage = assign_storage_id(tensor, -1);
    ref.geometry = geometry_of(tensor);
    ref.requires_grad = tensor.requires_grad();
  }
  External external{kind,
                    index,
                    name,
                    ref,
                    c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
                    has_memory(tensor.unsafeGetTensorImpl())
                        ? tensor.unsafeGetTensorImpl()->unsafe_storage().getWeakStorageImpl()
                        : c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>())};
  if (!tensor.is_inference()) external.version = tensor._version();
  tape_.externals.push_back(std::move(external));
  return static_cast<int32_t>(tape_.externals.size() - 1);
}

// Adds a tensor that the run uses for the first time: the gradient of a known leaf, or one that no recorded op made.
int32_t Recorder::discover(const at::Tensor& tensor) {
  auto named = names_.find(tensor.unsafeGetTensorImpl());
  // Leaves and watched state are no gradients, and there may be thousands of them, so the search is skipped for them.
  bool may_be_gradient =
      !(tensor.requires_grad() && tensor.is_leaf()) && (named == names_.end() || named->second.kind != External::Kind::state);
  // An optimizer visits gradients in the order of their leaves, so the search continues after the last match.
  for (size_t k = 0; may_be_gradient && k < tape_.externals.size(); ++k) {
    size_t i = (next_leaf_ + k) % tape_.externals.size();
    const External& e = tape_.externals[i];
    if (!e.ref.requires_grad || e.kind == External::Kind::gradient || e.kind == External::Kind::tangent) continue;
    auto impl = e.weak.lock();
    if (!impl) continue;
    at::Tensor leaf(std::move(impl));
    if (leaf.is_leaf() && leaf.grad().defined() && leaf.grad().is_alias_of(tensor) && leaf.grad().layout() == at::kStrided) {
      next_leaf_ = i + 1;
      return add_external(External::Kind::gradient, static_cast<int32_t>(i), e.name + ".grad", leaf.grad());
    }
  }
  if (named != names_.end()) return add_external(named->second.kind, named->second.index, named->second.text, tensor);
  int32_t id = add_external(External::Kind::discovered, 0, "met" + std::to_string(tape_.externals.size()), tensor);
  if (tensor.dim() == 0 && tensor.storage().allocator()) tape_.externals[id].constant = bridge::to_scalar_tensor(tensor, /*plain=*/true);
  return id;
}

void Recorder::name(const at::Tensor& tensor, External::Kind kind, int32_t index, std::string text) {
  if (tensor.defined()) names_.emplace(tensor.unsafeGetTensorImpl(), ExternalName{kind, index, std::move(text)});
}

Geometry Recorder::geometry_on_tape(const at::Tensor& tensor, int32_t storage) const {
  Geometry g = geometry_of(tensor);
  g.offset -= tape_.storages[storage].shift / static_cast<int64_t>(tensor.itemsize());
  return g;
}

TensorRef Recorder::refer(const at::Tensor& tensor) {
  if (!tensor.defined() || !supported(tensor)) return {};
  int32_t storage = storage_id(tensor);
  if (storage < 0) storage = tape_.externals[discover(tensor)].ref.storage;
  else if (tape_.storages[storage].made_by < 0 && tensor.requires_grad()) adopt_leaf(tensor, storage);
  auto handle = handles_.find(tensor.unsafeGetTensorImpl());
  Geometry geometry = geometry_on_tape(tensor, storage);
  tape_.is_replayable &= geometry.offset >= 0;
  return {storage, std::move(geometry), tensor.requires_grad(), handle == handles_.end() ? -1 : handle->second};
}

// A tensor that was first used through `p.data()` now appears as the leaf itself: gradients belong to the leaf.
void Recorder::adopt_leaf(const at::Tensor& tensor, int32_t storage) {
  if (in_backward_) return;  // Saved tensors are unpacked as other objects.
  for (; listed_ < tape_.externals.size(); ++listed_)
    externals_on_[tape_.externals[listed_].ref.storage].push_back(static_cast<int32_t>(listed_));
  for (int32_t i : externals_on_[storage]) {
    External& e = tape_.externals[i];
    if (e.kind != External::Kind::discovered || e.ref.requires_grad || !(e.ref.geometry == geometry_of(tensor))) continue;
    e.ref.requires_grad = true;
    e.weak = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr());
    return;
  }
}

TapeArgument Recorder::record_tensor(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number()) return bridge::to_scalar_tensor(tensor, /*plain=*/false);
  return refer(tensor);
}

TapeArgument Recorder::record_argument(const c10::IValue& value) {
  if (value.isTensor()) return record_tensor(value.toTensor());
  if (value.isTensorList() || value.isOptionalTensorList()) {
    TensorListRef list;
    for (const c10::IValue& item : value.toListRef()) list.items.push_back(item.isTensor() ? refer(item.toTensor()) : TensorRef{});
    return list;
  }
  return value;
}

void Recorder::record_scalars(TapeOp& entry) {
  if (const ops::Facts* known = traits_of(entry.op).table_entry; known && known->specializes) return;
  for (const TapeArgument& arg : entry.args) {
    if (const auto* ref = std::get_if<TensorRef>(&arg)) entry.free_scalars |= ref->defined();
    else if (const auto* list = std::get_if<TensorListRef>(&arg)) entry.free_scalars |= !list->items.empty();
  }
  for (const TapeArgument& arg : entry.args)
    if (auto scalar = free_scalar(entry, arg)) tape_.scalars.push_back(*scalar);
}

void Recorder::record_writes(TapeOp& entry, const Stack& stack, size_t first) {
  const OpTraits& traits = traits_of(entry.op);
  auto add_write = [&](const TensorRef& ref, size_t argument, size_t item) {
    if (!ref.defined()) return;
    entry.writes.push_back({ref, static_cast<int32_t>(argument), static_cast<int32_t>(item)});
    tape_.storages[ref.storage].written = true;
  };
  auto add = [&](size_t i) {
    if (const auto* ref = std::get_if<TensorRef>(&entry.args[i])) add_write(*ref, i, 0);
    else if (const auto* list = std::get_if<TensorListRef>(&entry.args[i]))
      for (size_t k = 0; k < list->items.size(); ++k) add_write(list->items[k], i, k);
  };
  for (size_t i = 0; i < entry.args.size(); ++i)
    if (traits.writes[i]) add(i);
  if (traits.table_entry)
    for (const auto& hidden : traits.table_entry->hidden_writes)
      if (stack[first + hidden.flag].toBool()) add(hidden.operand);
}

TensorRef Recorder::record_result(const at::Tensor& tensor) {
  if (!tensor.defined() || !supported(tensor)) return {};
  int32_t storage = assign_storage_id(tensor, static_cast<int32_t>(tape_.ops.size()));
  int32_t handle = handles_[tensor.unsafeGetTensorImpl()] = tape_.handles++;
  return {storage, geometry_on_tape(tensor, storage), tensor.requires_grad(), handle};
}

// Computes aten::equal by ops that this listener records. Returns false if the op is another one, or if its operands are no plain tensors
// of the same type and sizes.
bool Recorder::record_comparison(const OpTraits& traits, Stack& stack) {
  if (!options_.records_comparisons || traits.name != "aten::equal") return false;
  at::Tensor a = stack[stack.size() - 2].toTensor(), b = stack[stack.size() - 1].toTensor();
  auto is_comparable = [](const at::Tensor& t) { return t.defined() && t.device().is_cpu() && t.layout() == at::kStrided; };
  if (!is_comparable(a) || !is_comparable(b) || a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::Tensor outcome = at::all(at::eq(a, b));
  bool value = *outcome.const_data_ptr<bool>();
  tape_.comparisons.push_back({refer(outcome), value});
  torch::jit::drop(stack, 2);
  stack.emplace_back(value);
  return true;
}

bool Recorder::record_break(const c10::OperatorHandle& op, const OpTraits& traits, const Stack& stack, size_t first) {
  bool is_break = traits.host_result || (traits.table_entry && traits.table_entry->breaks) || traits.dynamic_shape;
  if (traits.name == "aten::index.Tensor") is_break = has_mask(stack, first, op.schema().arguments().size());
  if (!is_break) return false;
  BreakEvent event;
  event.op = traits.name;
  event.what = "needs the value of a tensor on the host";
  event.instead = "move it out of the function";
  if (traits.table_entry && traits.table_entry->breaks) {
    event.what = traits.table_entry->breaks->what;
    event.instead = traits.table_entry->breaks->instead;
  }
  event.before_op = tape_.ops.size();
  event.frames = return_addresses();
  if (options_.fullgraph)
    throw UserError(ErrorCode::fullgraph, event.op + " " + event.what + " at " + user_line(event.frames) + "; " + event.instead +
                                              ", or compile without fullgraph to split here");
  tape_.breaks.push_back(std::move(event));
  return true;
}

// Returns whether a replay must run the op immediately instead of deferring it.
bool Recorder::must_run_immediately(const TapeOp& entry, const OpTraits& traits, bool is_break, size_t obstacles_before) const {
  if (is_break || traits.random || traits.no_result || traits.foreign || entry.allocates) return true;
  if (traits.table_entry && traits.table_entry->reads_grad_mode) return true;
  if (entry.op.hasTag(at::Tag::inplace_view) || traits.name == "aten::_lazy_clone") return true;
  if (tape_.obstacles.size() != obstacles_before) return true;  // The op uses tensors that are not plain ones.
  if (entry.absolute_offset)
    if (const auto* ref = std::get_if<TensorRef>(&entry.args[0]); ref->defined() && tape_.storages[ref->storage].shift != 0) return true;
  for (const TapeResult& result : entry.results)
    for (size_t i = 0; i < result.items.size(); ++i)
      if (result.items[i].defined() && tape_.storages[result.items[i].storage].made_by < static_cast<int32_t>(tape_.ops.size()) &&
          result.origins[i].argument < 0)
        return true;  // The result's memory is neither new nor an operand's.
  return false;
}

void Recorder::on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (listening_is_paused()) {
    if (std::find(tape_.obstacles.begin(), tape_.obstacles.end(), kDisabledObstacle) == tape_.obstacles.end())
      tape_.obstacles.push_back(kDisabledObstacle);
    return inner_run(op, keys, stack);
  }
  const OpTraits& traits = traits_of(op);
  if (traits.composite) return inner_decompose(op, keys, stack);
  if (record_comparison(traits, *stack)) return;
  size_t count = op.schema().arguments().size(), first = stack->size() - count;
  bool is_break = record_break(op, traits, *stack, first);
  size_t obstacles_before = tape_.obstacles.size();
  auto node = torch::autograd::get_current_node();
  in_backward_ = static_cast<bool>(node);
  if (traits.random) generator_.check(tape_);

  TapeOp entry{op};
  entry.before = {tape_.storages.size(), tape_.externals.size(), tape_.scalars.size()};
  entry.args.reserve(count);
  for (size_t i = 0; i < count; ++i) entry.args.push_back(record_argument((*stack)[first + i]));
  record_scalars(entry);
  record_writes(entry, *stack, first);
  entry.may_throw = traits.table_entry && traits.table_entry->may_throw;
  entry.allocates = traits.table_entry && traits.table_entry->uninitialized;
  entry.default_dtype = c10::get_default_dtype_as_scalartype();
  entry.takes_indices = !index_arguments(op).empty();
  entry.absolute_offset = traits.name.rfind("aten::as_strided", 0) == 0;
  if (traits.table_entry) entry.overwrites = traits.table_entry->overwrites;
  entry.no_grad = !at::GradMode::is_enabled();
  entry.nodes = nodes_made() - options_.first_node;
  if (node) {
    entry.in_backward = true;
    tape_.has_backward = true;
    tape_.nodes_run[node.get()] = torch::autograd::get_current_graph_task_keep_graph();
  }
  entry.ordered = traits.random || traits.no_result;
  std::vector<const c10::TensorImpl*> operands = operand_objects(entry.args, *stack, first);

  inner_run(op, keys, stack);
  if (traits.random) generator_.remember();

  size_t returns = op.schema().returns().size();
  for (size_t i = stack->size() - returns; i < stack->size(); ++i) {
    const c10::IValue& value = (*stack)[i];
    TapeResult result;
    auto note = [&](const at::Tensor& tensor) {
      TensorRef ref = record_result(tensor);
      result.origins.push_back(ref.defined() ? origin_of(tensor, entry.args, operands, ref.storage) : Origin{});
      result.items.push_back(std::move(ref));
    };
    if (value.isTensorList()) {
      result.is_list = true;
      for (const c10::IValue& item : value.toListRef()) note(item.toTensor());
    } else if (value.isTensor()) {
      note(value.toTensor());
    } else {
      note(at::Tensor());
    }
    entry.results.push_back(std::move(result));
  }
  entry.immediate = must_run_immediately(entry, traits, is_break, obstacles_before);
  tape_.ops.push_back(std::move(entry));
}

}  // namespace tenon::capture
