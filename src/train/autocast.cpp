#include <ATen/autocast_mode.h>
#include <tenon/detail/autocast.h>

namespace tenon::detail {

AutocastScope::AutocastScope(bool on) : on_(on) {
  if (!on_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(at::kCPU);
  type_before_ = at::autocast::get_autocast_dtype(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, was_enabled_);
  at::autocast::set_autocast_dtype(at::kCPU, type_before_);
}

}  // namespace tenon::detail
