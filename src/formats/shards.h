// Reads the weights of a model directory, in one safetensors file or in several with an index, as one table. Writes them with
// the file names and the index of Transformers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/directory.h"
#include "formats/safetensors.h"
#include "formats/tensor_view.h"

namespace tenon::formats {

class WeightFiles {
 public:
  // A tensor and the mapped file that owns its memory.
  struct MappedTensor {
    TensorView tensor;
    std::shared_ptr<const MappedFile> file;
  };

  // Throws UserError(file) if there is no model, and UserError(format) if index and files disagree.
  explicit WeightFiles(const Directory& directory);

  // Tensors are indexed in the order of their names.
  size_t size() const { return locations_.size(); }
  MappedTensor at(size_t i) const;
  std::optional<MappedTensor> find(std::string_view name) const;

 private:
  struct TensorLocation {
    uint32_t shard, index;
  };
  void open_one(const Directory& directory);
  void open_indexed(const Directory& directory);
  std::string_view name(const TensorLocation& location) const { return shards_[location.shard].name(location.index); }

  std::vector<Safetensors> shards_;
  std::vector<TensorLocation> locations_;
};

// Writes one file if all tensors fit into it, else several files, filled in the given order, and an index. Removes files of
// earlier saves. An interrupted save leaves no index.
void write_weights(const Directory& directory, std::span<const TensorView> tensors, const std::optional<Metadata>& metadata,
                   uint64_t max_shard_bytes);

}  // namespace tenon::formats
