// A view of a tensor in a safetensors file: the result of the reader and the input of the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::formats {

enum class Dtype : uint8_t {
#define TENON_DTYPE(name, bits) name,
#include "formats/dtypes.def"
#undef TENON_DTYPE
};

const char* dtype_name(Dtype dtype);
unsigned dtype_bits(Dtype dtype);
std::optional<Dtype> dtype_of(std::string_view name);

// Returns the size of the data in bytes, or nothing if it is not a whole number of bytes or exceeds 64 bits.
std::optional<uint64_t> byte_size(Dtype dtype, std::span<const int64_t> shape);

// Owns its shape only. The name and the data belong to the creator of the view.
struct TensorView {
  std::string_view name;
  Dtype dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // The format does not guarantee alignment.
};

// Entries in the order of the file; the Python package writes them in any order.
using Metadata = std::vector<std::pair<std::string, std::string>>;

}  // namespace tenon::formats
