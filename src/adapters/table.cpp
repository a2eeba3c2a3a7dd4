#include "adapters/table.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "base/error.h"

namespace tenon::adapters {

namespace {

// Numbers that stand in graphs and in tensors, so that neither holds a pointer that could outlive what it points to.
template <class P>
class Register {
 public:
  int64_t put(P what) {
    std::lock_guard lock(mutex_);
    all_.emplace(++last_, std::move(what));
    return last_;
  }
  void drop(int64_t number) {
    P dropped;  // dies without the lock
    std::lock_guard lock(mutex_);
    auto found = all_.find(number);
    if (found == all_.end()) return;
    dropped = std::move(found->second);
    all_.erase(found);
  }
  P find(int64_t number) const {
    std::lock_guard lock(mutex_);
    auto found = all_.find(number);
    return found == all_.end() ? P() : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<int64_t, P> all_;
  int64_t last_ = 0;
};

Register<std::weak_ptr<Core>>& cores() {
  static auto* all = new Register<std::weak_ptr<Core>>;
  return *all;
}

Register<TablePointer>& pins() {
  static auto* all = new Register<TablePointer>;
  return *all;
}

}  // namespace

bool Adapter::has_scale() const {
  for (const auto& layer : parts)
    for (const PartPointer& part : layer)
      if (part->has_scale()) return true;
  return false;
}

bool Entry::acts_on(size_t layer) const {
  return std::any_of(adapters.begin(), adapters.end(), [&](const AdapterPointer& adapter) { return !adapter->parts[layer].empty(); });
}

PartPointer over_flat(const Part& part, const at::Tensor& flat, int64_t first) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : part.tensors()) {
    tensors.push_back(flat.narrow(0, first, tensor.numel()).view(tensor.sizes()));
    first += tensor.numel();
  }
  return part.with(tensors);
}

Core::Core(std::vector<Layer> layers) : layers_(std::move(layers)), table_(std::make_shared<const Table>()) {}

int64_t Core::enter(const std::shared_ptr<Core>& core) { return cores().put(core); }

TablePointer Core::table() const {
  std::lock_guard lock(readers_);
  return table_;
}

void Core::put(TablePointer table) {
  std::lock_guard lock(readers_);
  std::swap(table_, table);
}

at::Tensor Core::pin(const at::Tensor& rows) {
  TablePointer now = table();
  at::Tensor given = rows.contiguous();
  int64_t count = given.numel();
  const int64_t* from = given.const_data_ptr<int64_t>();
  auto values = std::make_unique<int64_t[]>(static_cast<size_t>(count) + 1);
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = std::atomic_ref<int64_t>(const_cast<int64_t&>(from[i])).load();  // a bank may change its standard rows meanwhile
    auto entry = static_cast<size_t>(row & 0xffffffff);
    auto generation = static_cast<uint32_t>(static_cast<uint64_t>(row) >> 32);
    if (entry >= now->entries.size() || now->entries[entry].is_free || now->entries[entry].generation != generation)
      throw UserError(ErrorCode::adapter, "row " + std::to_string(i) + " names an adapter that was removed since the rows were made");
    values[static_cast<size_t>(i) + 1] = static_cast<int64_t>(entry);
  }
  int64_t number = pins().put(std::move(now));
  values[0] = number;
  int64_t* data = values.release();
  return at::from_blob(
      data, {count + 1},
      [number](void* memory) {
        pins().drop(number);
        delete[] static_cast<int64_t*>(memory);
      },
      at::kLong);
}

std::shared_ptr<Core> Core::find(int64_t number) {
  auto core = cores().find(number).lock();
  if (!core) throw UserError(ErrorCode::adapter, "the bank of this model is gone");
  return core;
}

TablePointer Core::pinned(const at::Tensor& pin) {
  auto table = pins().find(pin.const_data_ptr<int64_t>()[0]);
  if (!table) throw InternalError("rows of a call outlived it");
  return table;
}

}  // namespace tenon::adapters
