// The tensors of an adapter's file. Each is taken once by its name; a tensor that nothing took is an error.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/tensor_arena.h"
#include "formats/directory.h"
#include "formats/safetensors.h"

namespace tenon::adapters {

inline constexpr const char* kPrefix = "base_model.model.";  // Precedes the path of each layer in the names of tensors.

class Files {
 public:
  // Opens adapter_model.safetensors. Throws UserError for pickles, and for names that torch.compile has prefixed.
  explicit Files(const formats::Directory& directory);
  // Uses tensors in memory instead of a file.
  explicit Files(std::map<std::string, at::Tensor> tensors) : tensors_(std::move(tensors)) {}

  bool has(const std::string& name) const;
  // Returns a copy, converted to f32 unless it is f64. Throws UserError for a tensor that is missing, of another shape, or not finite.
  at::Tensor take(const std::string& name, at::IntArrayRef sizes);
  // Returns a matrix in column-major layout.
  at::Tensor take_column_major(const std::string& name, int64_t rows, int64_t columns);
  at::Tensor take_any_shape(const std::string& name);
  void refuse_rest() const;

  std::vector<std::string_view> names() const;

 private:
  std::optional<std::vector<int64_t>> sizes(const std::string& name) const;  // Empty if no tensor has that name.
  void check_sizes(const std::string& name, at::IntArrayRef wanted) const;
  const std::byte* floats_of(const std::string& name) const;  // Null if the tensor is not f32 or not in a file.
  at::Tensor converted(const std::string& name) const;        // A copy, converted to f32 unless it is f64.

  std::optional<formats::Safetensors> file_;
  std::map<std::string, at::Tensor> tensors_;
  std::set<std::string, std::less<>> taken_;
  TensorArena arena_{0};
};

}  // namespace tenon::adapters
