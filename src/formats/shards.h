// The weights of a model directory, in one safetensors file or in several with an index, as one table; and the
// same in the other direction, with the names and the index of Transformers.
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

class Weights {
 public:
  // What keeps the tensor's memory comes with it.
  struct Located {
    TensorView tensor;
    std::shared_ptr<const MappedFile> file;
  };

  // UserError(file) if there is no model; UserError(format) if index and files do not say the same.
  explicit Weights(const Directory& directory);

  // Tensors count in the order of their names.
  size_t size() const { return places_.size(); }
  Located at(size_t i) const;
  std::optional<Located> find(std::string_view name) const;

 private:
  struct Place {
    uint32_t shard, number;
  };
  void open_one(const Directory& directory);
  void open_indexed(const Directory& directory);
  std::string_view name(const Place& place) const { return shards_[place.shard].name(place.number); }

  std::vector<Safetensors> shards_;
  std::vector<Place> places_;
};

// One file if all tensors fit into it, else files that are filled in the order given and an index. What an
// earlier save left in the directory under such names is removed. A save that is cut short leaves no index.
void write_weights(const Directory& directory, std::span<const TensorView> tensors, const std::optional<Metadata>& metadata,
                   uint64_t max_shard_bytes);

}  // namespace tenon::formats
