#include "bridge/access.h"

#include <c10/core/impl/COW.h>

#include <mutex>
#include <unordered_map>

#include "base/process.h"

namespace tenon::bridge {
namespace {

std::atomic<void (*)(c10::StorageImpl*)> g_listener{nullptr};

// Locks and marks by storage. Several threads may arm a storage at the same time, and libtorch's hook has no lock.
struct MarkShard {
  std::mutex mutex;
  std::unordered_map<const c10::StorageImpl*, std::weak_ptr<Mark>> marks;
  std::atomic<bool> has_marks{false};  // Read without the lock: most shards never have marks.

  static MarkShard& of(const c10::StorageImpl* storage) {
    constexpr size_t kShards = 64, kBytesPerStorage = 64;  // Estimates, not measured.
    static MarkShard* all = new MarkShard[kShards];
    return all[reinterpret_cast<uintptr_t>(storage) / kBytesPerStorage % kShards];
  }
};
// Created when the library is loaded, because a fork in the middle of its creation would leave it locked in the child.
[[maybe_unused]] const MarkShard& g_first_shard = MarkShard::of(nullptr);

bool is_copy_on_write(c10::StorageImpl* storage) { return c10::impl::cow::is_cow_data_ptr(storage->_mutable_data_ptr_no_checks()); }

void on_materialize(c10::StorageImpl* storage) {
  invalidate_marks(storage);
  if (auto* listener = g_listener.load()) listener(storage);
}

bool arm_locked(c10::StorageImpl* storage) {
  if (storage->has_materializer()) return !is_copy_on_write(storage);
  storage->set_materializer(&on_materialize);
  return true;
}

void owns_nothing(void*) {}

}  // namespace

void set_listener(void (*listener)(c10::StorageImpl*)) { g_listener = listener; }

bool arm(c10::StorageImpl* storage) {
  ForkSafeLock lock(MarkShard::of(storage).mutex);
  return arm_locked(storage);
}

void arm_new(c10::StorageImpl* storage) { arm_locked(storage); }

void disarm(c10::StorageImpl* storage) {
  MarkShard& shard = MarkShard::of(storage);
  ForkSafeLock lock(shard.mutex);
  if (!is_copy_on_write(storage) && !shard.marks.count(storage)) storage->clear_materializer();
}

std::shared_ptr<const Mark> mark(c10::StorageImpl* storage) {
  if (storage->_mutable_data_ptr_no_checks().get_context() == nullptr) return nullptr;
  MarkShard& shard = MarkShard::of(storage);
  ForkSafeLock lock(shard.mutex);
  if (!arm_locked(storage)) return nullptr;
  std::erase_if(shard.marks, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Mark> known = shard.marks[storage].lock();
  if (!known) shard.marks[storage] = known = std::make_shared<Mark>();
  shard.has_marks = true;
  return known;
}

void invalidate_marks(c10::StorageImpl* storage) {
  MarkShard& shard = MarkShard::of(storage);
  if (!shard.has_marks) return;
  ForkSafeLock lock(shard.mutex);
  auto it = shard.marks.find(storage);
  if (it == shard.marks.end()) return;
  if (auto known = it->second.lock()) known->changed_.store(true, std::memory_order_release);
  shard.marks.erase(it);
  shard.has_marks = !shard.marks.empty();
}

c10::Storage borrow_memory(const void* begin, size_t bytes, c10::StorageImpl* owner) {
  c10::DataPtr memory(const_cast<void*>(begin), owner, &owns_nothing, c10::kCPU);
  return {c10::Storage::use_byte_size_t(), bytes, std::move(memory), nullptr, /*resizable=*/false};
}

void rebind_borrowed(const c10::Storage& storage, const void* begin, size_t bytes, c10::StorageImpl* owner) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  if (impl->nbytes() != bytes) impl->set_nbytes(bytes);
  c10::DataPtr& memory = impl->_mutable_data_ptr_no_checks();
  if (memory.get() != begin || memory.get_context() != owner) memory = {const_cast<void*>(begin), owner, &owns_nothing, c10::kCPU};
}

c10::StorageImpl* owner_of(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  c10::DataPtr& memory = storage->_mutable_data_ptr_no_checks();
  return memory.get_deleter() == &owns_nothing ? static_cast<c10::StorageImpl*>(memory.get_context()) : storage;
}

at::Tensor borrowed(const at::Tensor& tensor) {
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  auto out = at::detail::make_tensor<c10::TensorImpl>(borrow_memory(storage->data(), storage->nbytes(), owner_of(tensor)),
                                                      c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return out;
}

}  // namespace tenon::bridge
