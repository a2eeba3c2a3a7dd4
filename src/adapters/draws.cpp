#include "adapters/draws.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <map>
#include <mutex>

namespace tenon::adapters {

namespace {

constexpr size_t kFlagBytes = sizeof(int64_t);  // The number 1 if something was drawn, otherwise 0; then the state of the generator.

at::Tensor default_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

// What was drawn, by the address of the tensor.
class DrawRegister {
 public:
  void add(const void* memory, const DroppingSetsPointer& sets) {
    std::lock_guard lock(mutex_);
    all_[memory] = sets;
  }
  void remove(const void* memory) {
    std::lock_guard lock(mutex_);
    all_.erase(memory);
  }
  DroppingSetsPointer find(const void* memory) {
    std::lock_guard lock(mutex_);
    auto found = all_.find(memory);
    return found == all_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::weak_ptr<const DroppingSets>> all_;
};

DrawRegister& draw_register() {
  static auto* only = new DrawRegister;  // Never destroyed: tensors may be released after static destructors have run.
  return *only;
}

}  // namespace

int64_t draws_size() {
  static const int64_t size = static_cast<int64_t>(kFlagBytes) + default_state().numel();
  return size;
}

at::Tensor make_no_draws() { return at::zeros({draws_size()}, at::kByte); }

std::pair<at::Tensor, DroppingSetsPointer> make_draws(const DrawMasks& draw) {
  at::Generator shared = at::detail::getDefaultCPUGenerator(), own = at::detail::createCPUGenerator();
  at::Tensor before;
  DroppingSetsPointer sets;
  {
    // Drawing would lock the default generator's mutex, so a copy draws, and the default generator continues where the copy ended.
    std::lock_guard lock(shared.mutex());
    before = shared.get_state();
    own.set_state(before);
    sets = std::make_shared<const DroppingSets>(draw(own));
    shared.set_state(own.get_state());
  }
  auto memory = std::make_unique<uint8_t[]>(static_cast<size_t>(draws_size()));
  const int64_t flag = 1;
  std::memcpy(memory.get(), &flag, kFlagBytes);
  std::memcpy(memory.get() + kFlagBytes, before.const_data_ptr(), before.nbytes());
  draw_register().add(memory.get(), sets);
  auto release = [sets](void* bytes) {
    draw_register().remove(bytes);
    delete[] static_cast<uint8_t*>(bytes);
  };
  return {at::from_blob(memory.release(), {draws_size()}, release, at::kByte), sets};
}

DroppingSetsPointer find_draws(const at::Tensor& draws, const DrawMasks& draw) {
  at::Tensor given = draws.contiguous();
  const auto* bytes = given.const_data_ptr<uint8_t>();
  int64_t flag = 0;
  std::memcpy(&flag, bytes, kFlagBytes);
  if (flag == 0) return nullptr;
  if (auto known = draw_register().find(bytes)) return known;
  at::Tensor state = at::empty({draws_size() - static_cast<int64_t>(kFlagBytes)}, at::kByte);
  std::memcpy(state.data_ptr(), bytes + kFlagBytes, state.nbytes());
  at::Generator own = at::detail::createCPUGenerator();
  own.set_state(state);
  return std::make_shared<const DroppingSets>(draw(own));
}

}  // namespace tenon::adapters
