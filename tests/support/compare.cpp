#include "support/compare.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <sstream>

namespace tenon::test {

namespace {

// Compares strides, except those of dimensions of size 0 or 1, which have no effect.
bool same_strides(const torch::Tensor& a, const torch::Tensor& b) {
  for (int64_t d = 0; d < a.dim() && a.numel() > 0; ++d)
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

}  // namespace

std::string difference(const torch::Tensor& expected, const torch::Tensor& got) {
  if (expected.defined() != got.defined()) return expected.defined() ? "undefined" : "defined, but should not be";
  if (!expected.defined()) return "";
  std::ostringstream out;
  if (expected.scalar_type() != got.scalar_type()) out << "type " << got.scalar_type() << " instead of " << expected.scalar_type();
  else if (expected.layout() != got.layout()) out << "layout " << got.layout();
  else if (expected.sizes() != got.sizes()) out << "sizes " << got.sizes() << " instead of " << expected.sizes();
  else if (expected.layout() == torch::kStrided && !same_strides(expected, got))
    out << "strides " << got.strides() << " instead of " << expected.strides();
  else if (expected.requires_grad() != got.requires_grad()) out << "requires_grad " << got.requires_grad();
  else if (expected.is_inference() != got.is_inference()) out << "is_inference " << got.is_inference();
  if (!out.str().empty()) return out.str();
  torch::NoGradGuard no_grad;
  auto plain = [](const torch::Tensor& t) {
    return (t.layout() == torch::kStrided ? t.detach() : t.detach().to_dense()).contiguous().clone();
  };
  torch::Tensor a = plain(expected), b = plain(got);
  if (a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0) return "";
  torch::Tensor x = a.to(torch::kDouble).flatten(), y = b.to(torch::kDouble).flatten();
  auto worst = (x - y).abs().nan_to_num(1e300, 1e300).max();
  out << "values differ in bits, by at most " << worst.item<double>() << " of " << x.abs().max().item<double>();
  return out.str();
}

std::string difference(const std::vector<torch::Tensor>& expected, const std::vector<torch::Tensor>& got, const std::string& what) {
  if (expected.size() != got.size()) return what + ": " + std::to_string(got.size()) + " instead of " + std::to_string(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    std::string d = difference(expected[i], got[i]);
    if (!d.empty()) return what + " " + std::to_string(i) + ": " + d;
  }
  return "";
}

std::vector<int64_t> sharing(const std::vector<torch::Tensor>& tensors) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    int64_t first = -1, offset = 0;
    for (size_t k = 0; k <= i && first < 0; ++k)
      if (tensors[i].defined() && tensors[k].defined() && tensors[k].layout() == torch::kStrided &&
          tensors[i].layout() == torch::kStrided && tensors[i].is_alias_of(tensors[k])) {
        first = static_cast<int64_t>(k);
        offset = tensors[i].storage_offset() - tensors[k].storage_offset();
      }
    out.push_back(first);
    out.push_back(offset);
  }
  return out;
}

torch::Tensor generator_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

}  // namespace tenon::test
