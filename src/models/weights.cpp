#include "models/weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/StringUtil.h>

#include "base/error.h"

namespace tenon {

namespace {

class Renamed : public Weights::Source {
 public:
  Renamed(Weights from, std::string (*rename)(const std::string&)) : from_(std::move(from)), rename_(rename) {}
  bool has(const std::string& name) override { return from_.has(rename_(name)); }
  at::Tensor take(const std::string& name, at::IntArrayRef sizes) override { return from_.take(rename_(name), sizes); }

 private:
  Weights from_;
  std::string (*rename_)(const std::string&);
};

}  // namespace

Weights Weights::renamed(std::string (*rename)(const std::string&)) const { return Weights(std::make_shared<Renamed>(*this, rename)); }

namespace models {

namespace {

struct DtypePair {
  formats::Dtype file;
  at::ScalarType tensor;
};
constexpr DtypePair kTypes[] = {{formats::Dtype::F64, at::kDouble},    {formats::Dtype::F32, at::kFloat},
                                {formats::Dtype::BF16, at::kBFloat16}, {formats::Dtype::F16, at::kHalf},
                                {formats::Dtype::I64, at::kLong},      {formats::Dtype::I32, at::kInt},
                                {formats::Dtype::U8, at::kByte},       {formats::Dtype::BOOL, at::kBool}};

std::string sizes_text(at::IntArrayRef sizes) { return c10::str(sizes); }

// A view of the mapped file, which lives as long as any tensor over it. The file is mapped privately: writing to the tensor changes
// the process's copy of the pages alone.
at::Tensor tensor_over(const formats::WeightFiles::MappedTensor& found, at::ScalarType type) {
  const auto& view = found.tensor;
  void* data = const_cast<std::byte*>(view.data.data());
  auto options = at::TensorOptions(type);
  if (view.data.empty()) return at::empty(view.shape, options);
  if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(type) == 0)
    return at::from_blob(
        data, view.shape, [file = found.file](void*) {}, options);
  at::Tensor copy = at::empty(view.shape, options);
  std::memcpy(copy.data_ptr(), data, view.data.size());
  return copy;
}

}  // namespace

std::optional<at::ScalarType> scalar_type(formats::Dtype dtype) {
  for (const DtypePair& pair : kTypes)
    if (pair.file == dtype) return pair.tensor;
  return std::nullopt;
}

namespace {

formats::Dtype file_type(at::ScalarType type) {
  for (const DtypePair& pair : kTypes)
    if (pair.tensor == type) return pair.file;
  throw UserError(ErrorCode::format,
                  std::string("tensors of type ") + c10::toString(type) + " cannot be saved. Convert them to f32, bf16 or f16.");
}

}  // namespace

formats::TensorView view_of(const std::string& name, const at::Tensor& tensor) {
  return {name,
          file_type(tensor.scalar_type()),
          tensor.sizes().vec(),
          {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

at::Tensor FileWeights::take(const std::string& name, at::IntArrayRef sizes) {
  auto found = files_.find(name);
  if (!found) throw UserError(ErrorCode::format, "tensor \"" + name + "\" is missing from the model's files");
  if (found->tensor.shape != sizes.vec())
    throw UserError(ErrorCode::format, "tensor \"" + name + "\" has shape " + sizes_text(found->tensor.shape) +
                                           " where config.json requires " + sizes_text(sizes));
  auto type = scalar_type(found->tensor.dtype);
  if (!type)
    throw UserError(ErrorCode::format, "tensor \"" + name + "\" is of type " + formats::dtype_name(found->tensor.dtype) +
                                           ", which is not supported; save the model in F32, BF16 or F16");
  taken_.insert(name);
  at::Tensor out = tensor_over(*found, *type);
  return type_ && out.is_floating_point() ? out.to(*type_) : out;
}

void FileWeights::refuse_rest(const std::regex& ignored, const std::set<std::string>& elsewhere) const {
  for (size_t i = 0; i < files_.size(); ++i) {
    std::string name(files_.at(i).tensor.name);
    if (taken_.contains(name) || elsewhere.contains(name) || std::regex_match(name, ignored)) continue;
    throw UserError(ErrorCode::format,
                    "tensor \"" + name + "\" of the model's files does not belong to a layer that config.json describes");
  }
}

}  // namespace models
}  // namespace tenon
