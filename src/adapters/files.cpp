#include "adapters/files.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <c10/util/StringUtil.h>

#include <cstring>

#include "base/error.h"
#include "models/weights.h"

namespace tenon::adapters {

namespace {

[[noreturn]] void refuse(const std::string& text) { throw UserError(ErrorCode::adapter, "adapter_model.safetensors: " + text); }

formats::Safetensors open(const formats::Directory& directory) {
  if (!directory.has("adapter_model.safetensors") && directory.has("adapter_model.bin"))
    throw UserError(ErrorCode::adapter,
                    directory.path() + ": adapter_model.bin is a pickle, which is never opened; save the adapter with safetensors");
  return formats::Safetensors(std::make_shared<const formats::MappedFile>(directory.map("adapter_model.safetensors")));
}

at::ScalarType type_of(const formats::TensorView& view) {
  auto type = models::scalar_type(view.dtype);
  if (!type || !c10::isFloatingType(*type))
    refuse("tensor \"" + std::string(view.name) + "\" is of type " + formats::dtype_name(view.dtype) + ", which is not supported");
  return *type;
}

}  // namespace

Files::Files(const formats::Directory& directory) : file_(open(directory)) {
  for (const std::string& name : names())
    if (name.find("_orig_mod.") != std::string::npos)
      refuse("the name \"" + name + "\" comes from a compiled wrapper; take the segments _orig_mod. out of all names");
}

std::vector<std::string> Files::names() const {
  std::vector<std::string> out;
  for (size_t i = 0; file_ && i < file_->size(); ++i) out.emplace_back(file_->name(i));
  for (const auto& [name, tensor] : tensors_) out.push_back(name);
  return out;
}

std::optional<std::vector<int64_t>> Files::sizes(const std::string& name) const {
  if (auto known = tensors_.find(name); known != tensors_.end()) return known->second.sizes().vec();
  auto found = file_ ? file_->find(name) : std::nullopt;
  return found ? std::optional(file_->tensor(*found).shape) : std::nullopt;
}

at::Tensor Files::copy(const std::string& name) const {
  if (auto known = tensors_.find(name); known != tensors_.end()) return known->second.clone(at::MemoryFormat::Contiguous);
  formats::TensorView view = file_->tensor(*file_->find(name));
  at::Tensor out = at::empty(view.shape, type_of(view));
  if (!view.data.empty()) std::memcpy(out.data_ptr(), view.data.data(), view.data.size());
  return out.scalar_type() == at::kDouble ? out : out.to(at::kFloat);
}

bool Files::has(const std::string& name) const { return sizes(name).has_value(); }

at::Tensor Files::take_any_shape(const std::string& name) {
  if (!has(name)) refuse("tensor \"" + name + "\" is missing");
  taken_.insert(name);
  at::Tensor out = copy(name);
  if (!at::isfinite(out).all().item<bool>()) refuse("tensor \"" + name + "\" holds NaN or infinity");
  return out;
}

at::Tensor Files::take(const std::string& name, at::IntArrayRef wanted) {
  if (auto known = sizes(name); known && *known != wanted.vec())
    refuse("tensor \"" + name + "\" has shape " + c10::str(at::IntArrayRef(*known)) + " where the configuration asks for " +
           c10::str(wanted));
  return take_any_shape(name);
}

void Files::refuse_rest() const {
  for (const std::string& name : names())
    if (!taken_.contains(name)) refuse("tensor \"" + name + "\" belongs to no layer that the configuration asks for");
}

}  // namespace tenon::adapters
