// Autocast for a scope.
#pragma once

#include <ATen/core/Tensor.h>

#include <tenon/export.h>

namespace tenon::detail {

// Turns on bf16 autocast on the CPU if `on` is set, as torch.autocast("cpu") does.
class AutocastScope {
 public:
  TENON_API explicit AutocastScope(bool on);
  TENON_API ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool on_, was_enabled_ = false;
  at::ScalarType type_before_ = at::kFloat;
};

}  // namespace tenon::detail
