// Weights by name from the files of a model directory. Each is taken once, without a copy.
#pragma once

#include <tenon/family.h>

#include <optional>
#include <regex>
#include <set>

#include "formats/shards.h"

namespace tenon::models {

class FileWeights : public Weights::Source {
 public:
  FileWeights(const formats::Directory& directory, std::optional<at::ScalarType> type) : files_(directory), type_(type) {}

  bool has(const std::string& name) override { return files_.find(name).has_value(); }
  at::Tensor take(const std::string& name, at::IntArrayRef sizes) override;
  // Throws UserError if a tensor of the files was not taken, unless it matches `ignored` or is in `elsewhere`.
  void refuse_rest(const std::regex& ignored, const std::set<std::string>& elsewhere) const;

 private:
  formats::WeightFiles files_;
  std::optional<at::ScalarType> type_;
  std::set<std::string, std::less<>> taken_;
};

// Returns libtorch's type for a file's type; empty if libtorch has none.
std::optional<at::ScalarType> scalar_type(formats::Dtype dtype);
// Returns a contiguous tensor as an entry of a safetensors file.
formats::TensorView view_of(const std::string& name, const at::Tensor& tensor);

}  // namespace tenon::models
