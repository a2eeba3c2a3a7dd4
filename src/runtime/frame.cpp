#include "runtime/frame.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "bridge/access.h"
#include "bridge/convert.h"

namespace tenon::runtime {

std::vector<ir::FixedType> types_of(const ir::Graph& graph, const ir::SymbolValues& symbols) {
  std::vector<ir::FixedType> types(graph.values.size());
  std::vector<bool> is_known(graph.values.size(), false);
  auto add = [&](ir::ValueId id) {
    for (; id != ir::kNoValue && !is_known[id]; id = graph.values[id].alias_of) {
      types[id] = graph.values[id].type.at(symbols);
      is_known[id] = true;
    }
  };
  for (const ir::Input& input : graph.inputs) add(input.value);
  for (const ir::Node& node : graph.nodes) {
    ir::for_each_operand(node, add);
    ir::for_each_definition(node, add);
  }
  for (const ir::WriteBack& write : graph.write_backs) add(write.value);
  for (ir::ValueId id : graph.outputs) add(id);
  return types;
}

FrameLayout::FrameLayout(const ir::Graph& of, ir::SymbolValues values, ir::Arena plan, bool keeps)
    : graph(of),
      symbols(std::move(values)),
      types(types_of(of, symbols)),
      arena(std::move(plan)),
      keeps_memory(keeps),
      is_output(of.values.size(), false) {
  if (arena.locations.empty()) arena.locations.assign(graph.values.size(), {ir::Arena::kOwn, 0});
  for (size_t id = 0; id < graph.values.size(); ++id) arena.locations[id].begin += types[id].offset * ir::dtype_size(types[id].dtype);
  for (ir::ValueId id : graph.outputs)
    if (id != ir::kNoValue) is_output[id] = true;
}

RunFrame::RunFrame(const FrameLayout& layout)
    : layout_(layout),
      graph_(layout.graph),
      is_inference_(c10::InferenceMode::is_enabled()),
      tensors_(graph_.values.size()),
      memory_(graph_.values.size()),
      cached_(graph_.values.size()) {}

bool RunFrame::fits() const { return is_inference_ == c10::InferenceMode::is_enabled(); }

void RunFrame::clear() {
  for (at::Tensor& tensor : tensors_) tensor.reset();
  hosts_.clear();
  stack.clear();
  if (!layout_.keeps_memory) block_.reset();
}

void RunFrame::begin() {
  if (!block_) block_.emplace(static_cast<size_t>(layout_.arena.bytes));
  hosts_.resize(layout_.arena.hosts.size());
}

// Results are allocated when the first value is computed in their buffer: a backward frees saved tensors meanwhile.
at::Tensor& RunFrame::host(size_t index) {
  if (!hosts_[index].defined()) hosts_[index] = allocate(layout_.arena.hosts[index]);
  return hosts_[index];
}

void* RunFrame::bind_arena(ir::ValueId id) {
  ir::Arena::Location location = layout_.arena.locations[id];
  char* begin = location.host == ir::Arena::kBlock ? block_->begin()
                                                   : static_cast<char*>(host(static_cast<size_t>(location.host)).mutable_data_ptr());
  return memory_[id] = begin + location.begin;
}

bool RunFrame::put_view(ir::ValueId id) {
  ir::ValueId base_id = graph_.values[id].alias_of;
  const ir::FixedType &type = layout_.types[id], &of = layout_.types[base_id];
  const at::Tensor& base = tensors_[base_id];
  if (base.defined() && (base.strides() != c10::IntArrayRef(of.strides) || base.sizes() != c10::IntArrayRef(of.sizes))) return false;
  memory_[id] = static_cast<char*>(const_cast<void*>(data(base_id))) + (type.offset - of.offset) * ir::dtype_size(type.dtype);
  return true;
}

// The tensor has the recorded storage offset, because as_strided uses absolute offsets.
const at::Tensor& RunFrame::tensor_over_memory(ir::ValueId id) {
  const ir::FixedType& type = layout_.types[id];
  ir::ValueId root = id;
  while (!tensors_[root].defined() && graph_.values[root].alias_of != ir::kNoValue) root = graph_.values[root].alias_of;
  c10::StorageImpl* owner = tensors_[root].defined() ? bridge::owner_of(tensors_[root]) : nullptr;
  char* begin = memory_[id] - type.offset * ir::dtype_size(type.dtype);
  auto bytes = static_cast<size_t>(ir::extent_of(type) * ir::dtype_size(type.dtype));
  at::Tensor& tensor = cached_[id];
  if (tensor.defined()) bridge::rebind_borrowed(tensor.storage(), begin, bytes, owner);
  else tensor = bridge::tensor_in(bridge::borrow_memory(begin, bytes, owner), type);
  return tensor;
}

at::Tensor RunFrame::output(ir::ValueId id) {
  if (is_in_arena(id)) {
    bind_arena(id);
    return tensor(id);
  }
  const std::vector<ir::ValueId>& hosts = layout_.arena.hosts;
  auto it = std::find(hosts.begin(), hosts.end(), id);
  return it == hosts.end() ? allocate(id) : host(static_cast<size_t>(it - hosts.begin()));
}

// A result of an earlier run is used again if nobody holds it any more.
at::Tensor RunFrame::allocate(ir::ValueId id) {
  const ir::FixedType& type = layout_.types[id];
  if (!layout_.keeps_memory || !layout_.is_output[id]) return bridge::empty_of(type);
  if (!cached_[id].defined() || !is_free(cached_[id], type)) cached_[id] = bridge::empty_of(type);
  return cached_[id];
}

bool is_free(const at::Tensor& tensor, const ir::FixedType& type) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const c10::Storage& storage = impl->unsafe_storage();
  return tensor.use_count() == 1 && tensor.weak_use_count() == 1 && storage.use_count() == 1 && impl->autograd_meta() == nullptr &&
         !storage.unsafeGetStorageImpl()->has_materializer() && impl->storage_offset() == type.offset &&
         impl->sizes() == c10::IntArrayRef(type.sizes) && impl->strides() == c10::IntArrayRef(type.strides) &&
         impl->dtype() == c10::scalarTypeToTypeMeta(bridge::from_dtype(type.dtype)) && storage.data() != nullptr &&
         storage.nbytes() >= static_cast<size_t>(ir::extent_of(type) * ir::dtype_size(type.dtype)) &&
         impl->is_inference() == c10::InferenceMode::is_enabled() && !tensor.is_neg() && !tensor.is_conj();
}

}  // namespace tenon::runtime
