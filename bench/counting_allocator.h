// An allocator for CPU tensors that counts their bytes. Slow: not for measuring times.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <unordered_map>

namespace tenon::bench {

// Counts the bytes that libtorch has allocated, rounded up to the allocator's 64-byte granularity.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& instance() {
    static auto* counting = new CountingAllocator;  // Never destroyed, because tensors are freed until the process ends.
    return *counting;
  }
  // Lets libtorch use it from now on.
  static void install() { c10::SetCPUAllocator(&instance(), /*priority=*/100); }

  c10::DataPtr allocate(size_t bytes) override {
    bytes = (bytes + 63) / 64 * 64;
    void* memory = std::aligned_alloc(64, bytes);
    std::lock_guard lock(mutex_);
    sizes_[memory] = bytes;
    now_ += bytes;
    peak_ = std::max(peak_, now_);
    return {memory, memory, &free, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  // The peak of allocated bytes while `f` runs, minus those allocated before.
  size_t peak_of(const std::function<void()>& f) {
    size_t before = peak_ = now_;
    f();
    return peak_ - before;
  }

 private:
  static void free(void* memory) {
    {
      CountingAllocator& counting = instance();
      std::lock_guard lock(counting.mutex_);
      auto it = counting.sizes_.find(memory);
      if (it == counting.sizes_.end()) return;
      counting.now_ -= it->second;
      counting.sizes_.erase(it);
    }
    std::free(memory);
  }

  std::mutex mutex_;
  std::unordered_map<void*, size_t> sizes_;
  size_t now_ = 0, peak_ = 0;
};

}  // namespace tenon::bench
