#include "adapters/table.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "base/error.h"

namespace tenon::adapters {

namespace {

// Objects by id. Graphs and tensors hold ids instead of pointers, which could dangle.
template <class P>
class Register {
 public:
  int64_t add(P value) {
    std::lock_guard lock(mutex_);
    all_.emplace(++last_, std::move(value));
    return last_;
  }
  void remove(int64_t id) {
    P removed;  // The value is destroyed after the lock is released.
    std::lock_guard lock(mutex_);
    auto found = all_.find(id);
    if (found == all_.end()) return;
    removed = std::move(found->second);
    all_.erase(found);
  }
  P find(int64_t id) const {
    std::lock_guard lock(mutex_);
    auto found = all_.find(id);
    return found == all_.end() ? P() : found->second;
  }
  std::vector<P> all() const {
    std::lock_guard lock(mutex_);
    std::vector<P> out;
    for (const auto& [id, value] : all_) out.push_back(value);
    return out;
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

Register<std::weak_ptr<const BankTable>>& tables() {
  static auto* all = new Register<std::weak_ptr<const BankTable>>;
  return *all;
}

constexpr size_t kMaxRetainedTables = 16;  // Tables that stay valid after a change, for calls that began before. Not measured.

}  // namespace

bool Adapter::has_scale() const {
  for (const auto& layer : layer_adapters)
    for (const LayerAdapterPointer& layer_adapter : layer)
      if (layer_adapter->has_scale()) return true;
  return false;
}

bool BankEntry::acts_on(size_t layer) const {
  return std::any_of(adapters.begin(), adapters.end(),
                     [&](const AdapterPointer& adapter) { return !adapter->layer_adapters[layer].empty(); });
}

std::vector<BankEntry>::const_iterator BankTable::find(int64_t id) const {
  auto found =
      std::lower_bound(entries.begin(), entries.end(), id, [](const BankEntry& entry, int64_t wanted) { return entry.id < wanted; });
  return found != entries.end() && found->id == id ? found : entries.end();
}

size_t add_entry(BankTable& table, std::vector<AdapterPointer> adapters) {
  static std::atomic<int64_t> last_id = 0;
  table.entries.push_back({++last_id, std::move(adapters)});
  return table.entries.size() - 1;
}

Core::Core(std::vector<Layer> layers) : layers_(std::move(layers)) {
  BankTable first;
  add_entry(first, {});  // The first entry is the base.
  table_ = copy(first);
}

Core::~Core() { cores().remove(id_); }

int64_t Core::register_core(const std::shared_ptr<Core>& core) { return cores().add(core); }

BankTablePointer Core::table() const {
  std::lock_guard lock(readers_);
  return table_;
}

std::shared_ptr<BankTable> Core::copy(const BankTable& table) {
  std::shared_ptr<BankTable> out(new BankTable(table), [](BankTable* table) {
    tables().remove(table->id);
    delete table;
  });
  out->id = tables().add(out);
  return out;
}

void Core::publish(BankTablePointer table) {
  BankTablePointer removed;  // The value is destroyed after the lock is released.
  std::lock_guard lock(readers_);
  retained_.push_back(std::exchange(table_, std::move(table)));
  if (retained_.size() <= kMaxRetainedTables) return;
  removed = std::move(retained_.front());
  retained_.pop_front();
}

void Core::refuse_row(int64_t row, int64_t id) const {
  auto error = [&](const std::string& why) {
    return UserError(ErrorCode::adapter, "row " + std::to_string(row) + " " + why + ". Make new rows with rows() of this model's bank.");
  };
  for (const auto& weak : cores().all()) {
    auto other = weak.lock();
    if (!other || other.get() == this) continue;
    auto table = other->table();
    if (table->find(id) != table->entries.end()) throw error("belongs to the bank of another model");
  }
  if (id < table()->entries[0].id) throw error("belongs to a bank that no longer exists");
  throw error("names an adapter that was removed, or belongs to a bank that no longer exists");
}

at::Tensor Core::pin(const at::Tensor& rows) {
  if (before_call_) before_call_();
  BankTablePointer now = table();
  at::Tensor given = rows.contiguous();
  int64_t count = given.numel();
  if (count == 0) throw UserError(ErrorCode::adapter, "there are no rows. Give one name for each row of the batch.");
  const int64_t* from = given.const_data_ptr<int64_t>();
  auto values = std::make_unique<int64_t[]>(static_cast<size_t>(count) + 1);
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i) + 1] = static_cast<int64_t>(now->default_entry);
    if (from[i] == kDefaultRow) continue;
    auto entry = now->find(from[i]);
    if (entry == now->entries.end()) refuse_row(i, from[i]);
    if (now->is_merged && entry != now->entries.begin())
      throw UserError(ErrorCode::adapter,
                      "row " + std::to_string(i) + " names an adapter while adapters are merged. Call unmerge() first.");
    values[static_cast<size_t>(i) + 1] = entry - now->entries.begin();
  }
  values[0] = now->id;
  return at::from_blob(
      values.release(), {count + 1}, [now](void* memory) { delete[] static_cast<int64_t*>(memory); }, at::kLong);
}

std::shared_ptr<Core> Core::find(int64_t id) {
  auto core = cores().find(id).lock();
  if (!core) throw UserError(ErrorCode::adapter, "the bank of this model no longer exists. Make a tenon::Bank on the model again.");
  return core;
}

BankTablePointer Core::pinned(const at::Tensor& pin) {
  auto table = tables().find(pin.const_data_ptr<int64_t>()[0]).lock();
  if (!table) throw InternalError("the bank table of a call was released before the call ended");
  return table;
}

}  // namespace tenon::adapters
