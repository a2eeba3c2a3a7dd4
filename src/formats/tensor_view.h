// A tensor as safetensors files hold it: the reader hands these out, the writer takes them.
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

// How many bytes the data takes. Nothing if that is not a whole number or too large for 64 bits.
std::optional<uint64_t> byte_size(Dtype dtype, std::span<const int64_t> shape);

// Owns its shape only; the name and the data belong to whoever made the view.
struct TensorView {
  std::string_view name;
  Dtype dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // the format does not promise that it is aligned
};

// In the order of the file: a file of the Python package has them in any order.
using Metadata = std::vector<std::pair<std::string, std::string>>;

}  // namespace tenon::formats
