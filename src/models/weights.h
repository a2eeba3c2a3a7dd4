// Weights by name out of the files of a model directory, each taken once and where it lies.
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
  // Throws if the files hold what nobody took, but for what matches or is listed.
  void refuse_rest(const std::regex& nothing, const std::set<std::string>& elsewhere) const;

 private:
  formats::WeightFiles files_;
  std::optional<at::ScalarType> type_;
  std::set<std::string, std::less<>> taken_;
};

// The type of a tensor in a file; nothing if libtorch computes with no such type.
std::optional<at::ScalarType> scalar_type(formats::Dtype dtype);
// A contiguous tensor as a file has it.
formats::TensorView view_of(const std::string& name, const at::Tensor& tensor);

}  // namespace tenon::models
