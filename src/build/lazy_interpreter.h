// An interpreter that is made when it is first needed: most programs never run their ops one by one in ATen.
#pragma once

#include <c10/core/InferenceMode.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/interpreter.h"

namespace tenon::build {

class LazyInterpreter {
 public:
  using Pointer = std::shared_ptr<const runtime::Interpreter>;
  explicit LazyInterpreter(std::function<Pointer()> make) : make_(std::move(make)) {}

  const Pointer& get() const {
    if (!is_made_.load(std::memory_order_acquire)) make();
    return made_;
  }

 private:
  void make() const {
    std::lock_guard lock(mutex_);
    if (made_) return;
    c10::InferenceMode normal(false);  // Constants are used by later runs outside of inference mode too.
    made_ = make_();
    is_made_.store(true, std::memory_order_release);
  }

  std::function<Pointer()> make_;
  mutable std::mutex mutex_;
  mutable std::atomic<bool> is_made_{false};
  mutable Pointer made_;
};

}  // namespace tenon::build
