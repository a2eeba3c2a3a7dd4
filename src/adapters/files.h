// The tensors of an adapter's file. Each is taken once by its name; at the end nothing may be left over.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/room.h"
#include "formats/directory.h"
#include "formats/safetensors.h"

namespace tenon::adapters {

inline constexpr const char* kPrefix = "base_model.model.";  // before the path of a layer of the base model

class Files {
 public:
  // adapter_model.safetensors; refuses pickles, and names that a compiled wrapper left.
  explicit Files(const formats::Directory& directory);
  // The same of tensors that are no file yet.
  explicit Files(std::map<std::string, at::Tensor> tensors) : tensors_(std::move(tensors)) {}

  bool has(const std::string& name) const;
  // In f32 (f64 stays), with memory of its own. Refuses a tensor that is missing, of another shape, or not finite.
  at::Tensor take(const std::string& name, at::IntArrayRef sizes);
  // A matrix whose columns lie together.
  at::Tensor take_by_columns(const std::string& name, int64_t rows, int64_t columns);
  at::Tensor take_any_shape(const std::string& name);
  void refuse_rest() const;

  std::vector<std::string_view> names() const;

 private:
  std::optional<std::vector<int64_t>> sizes(const std::string& name) const;  // nothing: there is none of that name
  void check_sizes(const std::string& name, at::IntArrayRef wanted) const;
  const std::byte* floats_of(const std::string& name) const;  // nothing: of another type, or no file's
  at::Tensor converted(const std::string& name) const;        // a copy, in f32 unless it is f64

  std::optional<formats::Safetensors> file_;
  std::map<std::string, at::Tensor> tensors_;
  std::set<std::string, std::less<>> taken_;
  Room room_{0};
};

}  // namespace tenon::adapters
