#include "capture/tensors.h"

#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "base/process.h"

namespace tenon::capture {

bool forward_mode_is_active() {
  NoForkScope scope;  // libtorch takes a lock.
  return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr;
}

bool has_tangent(const at::Tensor& tensor) {
  const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (!meta) return false;
  if (meta->fw_grad_ && !meta->fw_grad_->empty()) return true;
  auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  return view && view->has_fw_view() && has_tangent(view->get_forward_view().base_);
}

}  // namespace tenon::capture
