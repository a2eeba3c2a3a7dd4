#include "train/tensor_file.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "formats/directory.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "models/weights.h"

namespace tenon::train {

void write_tensors(const std::string& directory, const std::string& name, const TensorsByName& tensors) {
  TensorsByName contiguous;  // Owns what the views point to.
  std::vector<formats::TensorView> views;
  for (const auto& [key, tensor] : tensors) {
    auto entry = contiguous.emplace(key, tensor.detach().contiguous()).first;
    views.push_back(models::view_of(entry->first, entry->second));
  }
  formats::write_safetensors(formats::Directory(directory), name, views, formats::Metadata{{"format", "pt"}});
}

TensorsByName read_tensors(const std::string& directory, const std::string& name) {
  formats::Safetensors file(std::make_shared<const formats::MappedFile>(formats::Directory(directory).map(name)));
  TensorsByName out;
  for (size_t i = 0; i < file.size(); ++i) {
    formats::TensorView view = file.tensor(i);
    auto type = models::scalar_type(view.dtype);
    if (!type)
      throw UserError(ErrorCode::format, directory + "/" + name + ": the tensor " + shown(view.name) + " is of type " +
                                             formats::dtype_name(view.dtype) + ", which is not supported. Resume from another checkpoint.");
    at::Tensor tensor = at::empty(view.shape, *type);
    if (!view.data.empty()) std::memcpy(tensor.mutable_data_ptr(), view.data.data(), view.data.size());
    out.emplace(view.name, std::move(tensor));
  }
  return out;
}

void copy_tensor(const TensorsByName& tensors, const std::string& name, const std::string& source, const at::Tensor& target) {
  auto refuse = [&](const std::string& what) {
    throw UserError(ErrorCode::format, source + ": the tensor " + shown(name) + " " + what +
                                           ". Resume with the model and the adapter configuration of the checkpoint.");
  };
  auto found = tensors.find(name);
  if (found == tensors.end()) refuse("is missing");
  const at::Tensor& tensor = found->second;
  if (tensor.sizes() != target.sizes() || tensor.scalar_type() != target.scalar_type())
    refuse(std::string("is ") + c10::toString(tensor.scalar_type()) + " of shape " + c10::str(tensor.sizes()) + " and must be " +
           c10::toString(target.scalar_type()) + " of shape " + c10::str(target.sizes()));
  at::NoGradGuard no_grad;
  target.copy_(tensor);
}

}  // namespace tenon::train
