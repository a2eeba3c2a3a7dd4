#include "capture/call_memory.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>

#include "base/error.h"
#include "bridge/access.h"
#include "bridge/convert.h"
#include "capture/listener.h"

namespace tenon::capture {
namespace {

class OpRunner {
 public:
  OpRunner(const Tape& tape, CallMemory& memory) : tape_(tape), memory_(memory) {}

  void run(const TapeOp& op) {
    if (op.immediate || only_views(op)) return;
    stack_.clear();
    next_scalar_ = op.before.scalars;
    for (size_t i = 0; i < op.args.size(); ++i) push(op, i);
    op.op.callBoxed(&stack_);
    for (size_t r = 0; r < op.results.size(); ++r) keep(op, r);
  }

 private:
  // Returns whether all results are views of operands, which need no kernel.
  static bool only_views(const TapeOp& op) {
    if (!op.writes.empty() || op.results.empty()) return false;
    for (const TapeResult& result : op.results)
      for (size_t i = 0; i < result.items.size(); ++i)
        if (result.items[i].defined() && result.origins[i].argument < 0) return false;
    return true;
  }

  at::Tensor operand(const TensorRef& ref) const { return ref.defined() ? memory_.tensor(ref.storage, ref.geometry) : at::Tensor(); }

  void push(const TapeOp& op, size_t index) {
    const TapeArgument& arg = op.args[index];
    bool is_scalar = free_scalar(op, arg).has_value();
    double scalar = is_scalar ? memory_.scalars[next_scalar_++] : 0;
    if (const auto* ref = std::get_if<TensorRef>(&arg)) {
      stack_.emplace_back(operand(*ref));
    } else if (const auto* list = std::get_if<TensorListRef>(&arg)) {
      push_list(*list, op.op.schema().arguments()[index].type()->str().find('?') != std::string::npos);
    } else if (const auto* number = std::get_if<ir::ScalarTensor>(&arg)) {
      ir::ScalarTensor now = *number;
      if (is_scalar) now.number = scalar;
      stack_.emplace_back(bridge::from_scalar_tensor(now));
    } else if (is_scalar) {
      stack_.emplace_back(scalar);
    } else {
      stack_.push_back(std::get<c10::IValue>(arg));
    }
  }

  void push_list(const TensorListRef& list, bool optional) {
    if (!optional) {
      c10::List<at::Tensor> tensors;
      for (const TensorRef& ref : list.items) tensors.push_back(operand(ref));
      stack_.emplace_back(std::move(tensors));
      return;
    }
    c10::List<std::optional<at::Tensor>> tensors;
    for (const TensorRef& ref : list.items) tensors.push_back(ref.defined() ? std::optional(operand(ref)) : std::nullopt);
    stack_.emplace_back(std::move(tensors));
  }

  void keep(const TapeOp& op, size_t r) {
    const TapeResult& result = op.results[r];
    auto one = [&](const at::Tensor& tensor, size_t i) {
      const TensorRef& ref = result.items[i];
      if (!ref.defined() || result.origins[i].argument >= 0) return;
      if (tensor.sizes() != c10::IntArrayRef(ref.geometry.sizes) || tensor.strides() != c10::IntArrayRef(ref.geometry.strides) ||
          tensor.storage_offset() != ref.geometry.offset || tensor.scalar_type() != ref.geometry.dtype)
        throw InternalError(op_name(op.op) + " returned another layout than in the recorded call");
      memory_.set(ref.storage, tensor.storage());
    };
    if (result.is_list) {
      auto list = stack_[r].toTensorVector();
      for (size_t i = 0; i < list.size(); ++i) one(list[i], i);
    } else {
      one(stack_[r].toTensor(), 0);
    }
  }

  const Tape& tape_;
  CallMemory& memory_;
  Stack stack_;
  size_t next_scalar_ = 0;
};

}  // namespace

void CallMemory::borrow(int32_t storage, const void* begin, size_t bytes, int64_t shift, c10::StorageImpl* owner) {
  buffers_[storage] = {.is_borrowed = true,
                       .begin = static_cast<const char*>(begin) + shift,
                       .bytes = bytes - shift,
                       .owner = owner,
                       .is_shifted = shift != 0,
                       .reusable = std::move(buffers_[storage].reusable)};
}

void CallMemory::set(int32_t storage, c10::Storage made) { buffers_[storage] = {.made = std::move(made)}; }

void CallMemory::own(int32_t storage, c10::Storage only) { buffers_[storage] = {.is_owned = true, .made = std::move(only)}; }

void CallMemory::release_owned() {
  for (CallBuffer& buffer : buffers_)
    if (buffer.is_owned) buffer.made = {};
}

void CallMemory::clear() {
  for (CallBuffer& buffer : buffers_) {
    bool is_free = buffer.is_borrowed && buffer.made && buffer.made.use_count() == 1;
    buffer = {.reusable = std::move(is_free ? buffer.made : buffer.reusable)};
  }
}

std::pair<const char*, c10::StorageImpl*> CallMemory::address(int32_t storage) const {
  const CallBuffer& buffer = buffers_[storage];
  if (buffer.is_borrowed) return {buffer.begin, buffer.owner};
  if (!buffer.made) throw InternalError("storage " + std::to_string(storage) + " has no memory in this call");
  return {static_cast<const char*>(buffer.made.data()), nullptr};
}

const c10::Storage& CallMemory::storage(int32_t id) const {
  CallBuffer& buffer = buffers_[id];
  if (!buffer.made && buffer.is_borrowed && buffer.reusable) {
    buffer.made = std::move(buffer.reusable);
    bridge::rebind_borrowed(buffer.made, buffer.begin, buffer.bytes, buffer.owner);
  } else if (!buffer.made && buffer.is_borrowed) {
    buffer.made = bridge::borrow_memory(buffer.begin, buffer.bytes, buffer.owner);
  }
  if (!buffer.made) throw InternalError("storage " + std::to_string(id) + " has no memory in this call");
  return buffer.made;
}

at::Tensor CallMemory::tensor(int32_t storage, const Geometry& geometry) const {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(this->storage(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(geometry.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
  return tensor;
}

c10::DataPtr CallMemory::take(int32_t storage, size_t bytes) {
  const c10::Storage& from = this->storage(storage);
  c10::StorageImpl* impl = from.unsafeGetStorageImpl();
  if (from.use_count() == 1 && impl->allocator() == c10::GetCPUAllocator() && impl->nbytes() >= bytes)
    return std::move(impl->_mutable_data_ptr_no_checks());
  c10::DataPtr own = c10::GetCPUAllocator()->allocate(bytes);
  std::memcpy(own.get(), impl->data(), std::min(bytes, impl->nbytes()));
  return own;
}

void run_ops(const Tape& tape, size_t begin, size_t end, CallMemory& memory) {
  c10::impl::ExcludeDispatchKeyGuard below(keys_above_backends());
  OpRunner runner(tape, memory);
  for (size_t i = begin; i < end; ++i) runner.run(tape.ops[i]);
}

}  // namespace tenon::capture
