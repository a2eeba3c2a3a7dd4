#include "capture/recorder.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include "base/error.h"
#include "base/per_thread.h"
#include "bridge/convert.h"
#include "capture/extents.h"
#include "capture/index_check.h"
#include "capture/source.h"
#include "capture/tensors.h"
#include "ops/table.h"

namespace tenon::capture {

// What the recorder needs to know of an op, looked up once per op and process.
struct OpFacts {
  const ops::Facts* row = nullptr;
  std::string name;
  bool composite = false;
  bool random = false;
  bool dynamic_shape = false;  // the result's shape may depend on the data
  bool host_result = false;    // returns something that is not a tensor
  bool no_result = false;
  bool foreign = false;      // neither ATen's nor ours, and does not say that compilers may move it
  std::vector<bool> writes;  // per argument
};

namespace {

constexpr const char* kDisabled = "a part of it is disabled";

bool is_tensor_type(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) return true;
  if (type.kind() == c10::TypeKind::OptionalType || type.kind() == c10::TypeKind::ListType) return is_tensor_type(*type.containedType(0));
  return false;
}

OpFacts look_up(const c10::OperatorHandle& op) {
  OpFacts facts;
  const auto& schema = op.schema();
  facts.name = op_name(op);
  facts.row = ops::find(facts.name);
  facts.composite = is_composite(op);
  facts.random = op.hasTag(at::Tag::nondeterministic_seeded) && !(facts.row && facts.row->draws_nothing);
  facts.dynamic_shape = op.hasTag(at::Tag::dynamic_output_shape);
  facts.no_result = schema.returns().empty();
  bool ours = facts.name.rfind("aten::", 0) == 0 || facts.name.rfind("tenon::", 0) == 0 || facts.name.rfind("prim", 0) == 0;
  facts.foreign = !ours && !op.hasTag(at::Tag::pt2_compliant_tag);
  bool views_in_place = op.hasTag(at::Tag::inplace_view);  // changes sizes and strides, not contents
  for (const auto& result : schema.returns()) facts.host_result |= !is_tensor_type(*result.type());
  for (const auto& argument : schema.arguments()) {
    facts.writes.push_back(!views_in_place && argument.alias_info() && argument.alias_info()->isWrite());
    facts.random |= argument.type()->str().find("Generator") != std::string::npos && !(facts.row && facts.row->uninitialized);
  }
  return facts;
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

const OpFacts& Recorder::facts_of(const c10::OperatorHandle& op) {
  auto& known = per_thread<std::unordered_map<const void*, OpFacts>>();
  const void* key = &op.schema();
  auto it = known.find(key);
  if (it == known.end()) it = known.emplace(key, look_up(op)).first;
  return it->second;
}

int32_t Recorder::storage_number(const at::Tensor& tensor) const {
  auto it = storages_.find(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  return it == storages_.end() ? -1 : it->second;
}

int32_t Recorder::number_storage(const at::Tensor& tensor, int32_t born) {
  const auto& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  auto [it, fresh] = storages_.emplace(storage.unsafeGetStorageImpl(), static_cast<int32_t>(tape_.storages.size()));
  if (fresh) tape_.storages.push_back({storage.getWeakStorageImpl(), born, storage.nbytes()});
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
    ref.storage = number_storage(tensor, -1);
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

// A tensor that turns up in the run: the gradient of a leaf that is known, or a stranger.
int32_t Recorder::meet(const at::Tensor& tensor) {
  auto named = names_.find(tensor.unsafeGetTensorImpl());
  // Leaves and watched state are no gradients, and there may be thousands of them.
  bool may_be_gradient =
      !(tensor.requires_grad() && tensor.is_leaf()) && (named == names_.end() || named->second.kind != External::Kind::state);
  // An optimizer goes through gradients in the order of their leaves.
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
  int32_t number = add_external(External::Kind::met, 0, "met" + std::to_string(tape_.externals.size()), tensor);
  if (tensor.dim() == 0 && tensor.storage().allocator()) tape_.externals[number].number = bridge::number_of(tensor, /*plain=*/true);
  return number;
}

void Recorder::name(const at::Tensor& tensor, External::Kind kind, int32_t index, std::string text) {
  if (tensor.defined()) names_.emplace(tensor.unsafeGetTensorImpl(), Name{kind, index, std::move(text)});
}

Geometry Recorder::place_of(const at::Tensor& tensor, int32_t storage) const {
  Geometry g = geometry_of(tensor);
  g.offset -= tape_.storages[storage].moved / static_cast<int64_t>(tensor.itemsize());
  return g;
}

TensorRef Recorder::refer(const at::Tensor& tensor) {
  if (!tensor.defined() || !supported(tensor)) return {};
  int32_t storage = storage_number(tensor);
  if (storage < 0) storage = tape_.externals[meet(tensor)].ref.storage;
  else if (tape_.storages[storage].born < 0 && tensor.requires_grad()) recognise(tensor, storage);
  auto handle = handles_.find(tensor.unsafeGetTensorImpl());
  return {storage, place_of(tensor, storage), tensor.requires_grad(), handle == handles_.end() ? -1 : handle->second};
}

// Met before through `p.data()`, and now as itself: this is the one that gradients belong to.
void Recorder::recognise(const at::Tensor& tensor, int32_t storage) {
  if (in_backward_) return;  // saved tensors come back as other objects
  for (; listed_ < tape_.externals.size(); ++listed_)
    externals_on_[tape_.externals[listed_].ref.storage].push_back(static_cast<int32_t>(listed_));
  for (int32_t i : externals_on_[storage]) {
    External& e = tape_.externals[i];
    if (e.kind != External::Kind::met || e.ref.requires_grad || !(e.ref.geometry == geometry_of(tensor))) continue;
    e.ref.requires_grad = true;
    e.weak = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr());
    return;
  }
}

TapeArgument Recorder::note_tensor(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number()) return bridge::number_of(tensor, /*plain=*/false);
  return refer(tensor);
}

TapeArgument Recorder::note_argument(const c10::IValue& value) {
  if (value.isTensor()) return note_tensor(value.toTensor());
  if (value.isTensorList() || value.isOptionalTensorList()) {
    TensorListRef list;
    for (const c10::IValue& item : value.toListRef()) list.items.push_back(item.isTensor() ? refer(item.toTensor()) : TensorRef{});
    return list;
  }
  return value;
}

void Recorder::note_scalars(TapeOp& entry) {
  if (const ops::Facts* row = facts_of(entry.op).row; row && row->specializes) return;
  for (const TapeArgument& arg : entry.args) {
    if (const auto* ref = std::get_if<TensorRef>(&arg)) entry.free_scalars |= ref->defined();
    else if (const auto* list = std::get_if<TensorListRef>(&arg)) entry.free_scalars |= !list->items.empty();
  }
  for (const TapeArgument& arg : entry.args)
    if (auto scalar = free_scalar(entry, arg)) tape_.scalars.push_back(*scalar);
}

void Recorder::note_writes(TapeOp& entry, const Stack& stack, size_t first) {
  const OpFacts& facts = facts_of(entry.op);
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
    if (facts.writes[i]) add(i);
  if (facts.row)
    for (const auto& hidden : facts.row->hidden_writes)
      if (stack[first + hidden.flag].toBool()) add(hidden.operand);
}

TensorRef Recorder::note_result(const at::Tensor& tensor) {
  if (!tensor.defined() || !supported(tensor)) return {};
  int32_t storage = number_storage(tensor, static_cast<int32_t>(tape_.ops.size()));
  int32_t handle = handles_[tensor.unsafeGetTensorImpl()] = tape_.handles++;
  return {storage, place_of(tensor, storage), tensor.requires_grad(), handle};
}

bool Recorder::meet_break(const c10::OperatorHandle& op, const OpFacts& facts, const Stack& stack, size_t first) {
  bool is_break = facts.host_result || (facts.row && facts.row->breaks) || facts.dynamic_shape;
  if (facts.name == "aten::index.Tensor") is_break = has_mask(stack, first, op.schema().arguments().size());
  if (!is_break) return false;
  BreakEvent event;
  event.op = facts.name;
  event.what = "needs the value of a tensor on the host";
  event.instead = "move it out of the function";
  if (facts.row && facts.row->breaks) {
    event.what = facts.row->breaks->what;
    event.instead = facts.row->breaks->instead;
  }
  event.before_op = tape_.ops.size();
  event.frames = return_addresses();
  if (options_.fullgraph)
    throw UserError(ErrorCode::fullgraph, event.op + " " + event.what + " at " + user_line(event.frames) + "; " + event.instead +
                                              ", or compile without fullgraph to split here");
  tape_.breaks.push_back(std::move(event));
  return true;
}

// In a replay, where other ops wait.
bool Recorder::must_run_at_once(const TapeOp& entry, const OpFacts& facts, bool is_break, size_t obstacles_before) const {
  if (is_break || facts.random || facts.no_result || facts.foreign || entry.births) return true;
  if (facts.row && facts.row->reads_grad_mode) return true;
  if (entry.op.hasTag(at::Tag::inplace_view) || facts.name == "aten::_lazy_clone") return true;
  if (tape_.obstacles.size() != obstacles_before) return true;  // tensors that are not plain ones
  if (entry.absolute_offset)
    if (const auto* ref = std::get_if<TensorRef>(&entry.args[0]); ref->defined() && tape_.storages[ref->storage].moved != 0) return true;
  for (const TapeResult& result : entry.results)
    for (size_t i = 0; i < result.items.size(); ++i)
      if (result.items[i].defined() && tape_.storages[result.items[i].storage].born < static_cast<int32_t>(tape_.ops.size()) &&
          result.origins[i].argument < 0)
        return true;  // memory that is neither new nor an operand's
  return false;
}

void Recorder::on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (listening_is_paused()) {
    if (std::find(tape_.obstacles.begin(), tape_.obstacles.end(), kDisabled) == tape_.obstacles.end()) tape_.obstacles.push_back(kDisabled);
    return inner_run(op, keys, stack);
  }
  const OpFacts& facts = facts_of(op);
  if (facts.composite) return inner_decompose(op, keys, stack);
  size_t count = op.schema().arguments().size(), first = stack->size() - count;
  bool is_break = meet_break(op, facts, *stack, first);
  size_t obstacles_before = tape_.obstacles.size();
  auto node = torch::autograd::get_current_node();
  in_backward_ = static_cast<bool>(node);
  if (facts.random) generator_.check(tape_);

  TapeOp entry{op};
  entry.before = {tape_.storages.size(), tape_.externals.size(), tape_.scalars.size()};
  entry.args.reserve(count);
  for (size_t i = 0; i < count; ++i) entry.args.push_back(note_argument((*stack)[first + i]));
  note_scalars(entry);
  note_writes(entry, *stack, first);
  entry.may_throw = facts.row && facts.row->may_throw;
  entry.births = facts.row && facts.row->uninitialized;
  entry.default_dtype = c10::get_default_dtype_as_scalartype();
  entry.takes_indices = !index_arguments(op).empty();
  entry.absolute_offset = facts.name.rfind("aten::as_strided", 0) == 0;
  if (facts.row) entry.overwrites = facts.row->overwrites;
  entry.no_grad = !at::GradMode::is_enabled();
  entry.nodes = nodes_made() - options_.first_node;
  if (node) {
    entry.in_backward = true;
    tape_.has_backward = true;
    tape_.nodes_run[node.get()] = torch::autograd::get_current_graph_task_keep_graph();
  }
  entry.ordered = facts.random || facts.no_result;
  std::vector<const c10::TensorImpl*> operands = operand_objects(entry.args, *stack, first);

  inner_run(op, keys, stack);
  if (facts.random) generator_.remember();

  size_t returns = op.schema().returns().size();
  for (size_t i = stack->size() - returns; i < stack->size(); ++i) {
    const c10::IValue& value = (*stack)[i];
    TapeResult result;
    auto note = [&](const at::Tensor& tensor) {
      TensorRef ref = note_result(tensor);
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
  entry.immediate = must_run_at_once(entry, facts, is_break, obstacles_before);
  tape_.ops.push_back(std::move(entry));
}

}  // namespace tenon::capture
