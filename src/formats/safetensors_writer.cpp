#include "formats/safetensors_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "formats/json_scanner.h"
#include "formats/safetensors.h"

namespace tenon::formats {
namespace {

constexpr size_t kAlignment = 8;  // Bytes, as in the Python package.

[[noreturn]] void refuse_to_write(const std::string& file, const std::string& what) {
  throw UserError(ErrorCode::format, file + " cannot be written: " + what);
}

std::string quote(const std::string& file, std::string_view text) {
  if (first_bad_utf8(text)) refuse_to_write(file, "the text " + shown(text) + " is not UTF-8");
  return nlohmann::json(text).dump();
}

void check(const std::string& file, const TensorView& tensor) {
  std::string name = "the tensor " + shown(tensor.name);
  if (tensor.name == "__metadata__") refuse_to_write(file, name + " has the name that the format reserves for metadata");
  if (tensor.shape.size() > kMaxRank) refuse_to_write(file, name + " has more than " + std::to_string(kMaxRank) + " dimensions");
  std::optional<uint64_t> size = byte_size(tensor.dtype, tensor.shape);
  if (!size || *size != tensor.data.size())
    refuse_to_write(file, name + " has " + std::to_string(tensor.data.size()) + " bytes, which do not match its shape and dtype");
}

// Sorts by dtype, then by name. Larger elements come first, so that each tensor is aligned.
std::vector<size_t> order_of(std::span<const TensorView> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const TensorView &x = tensors[a], &y = tensors[b];
    return x.dtype != y.dtype ? x.dtype > y.dtype : x.name < y.name;
  });
  return order;
}

void refuse_repeated(const std::string& file, const std::string& what, std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse_to_write(file, what + " " + shown(*twice) + " is given twice");
}

void check_names(const std::string& file, std::span<const TensorView> tensors, const Metadata& metadata) {
  std::vector<std::string_view> names, keys;
  for (const TensorView& tensor : tensors) names.push_back(tensor.name);
  for (const auto& [key, value] : metadata) keys.push_back(key);
  refuse_repeated(file, "the tensor", std::move(names));
  refuse_repeated(file, "the metadata", std::move(keys));
  if (metadata.size() > kMaxMetadataEntries)
    refuse_to_write(file, "it has more than " + std::to_string(kMaxMetadataEntries) + " entries of metadata");
}

std::string header_of(const std::string& file, std::span<const TensorView> tensors, std::span<const size_t> order,
                      const std::optional<Metadata>& metadata) {
  std::string header = "{";
  auto separate = [&] { header += header.back() == '{' ? "" : ","; };
  if (metadata) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : *metadata) {
      separate();
      header += quote(file, key) + ":" + quote(file, value);
    }
    header += "}";
  }
  uint64_t at = 0;
  for (size_t i : order) {
    const TensorView& tensor = tensors[i];
    separate();
    header += quote(file, tensor.name) + ":{\"dtype\":\"" + dtype_name(tensor.dtype) + "\",\"shape\":[";
    for (size_t d = 0; d < tensor.shape.size(); ++d) header += (d == 0 ? "" : ",") + std::to_string(tensor.shape[d]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + tensor.data.size()) + "]}";
    at += tensor.data.size();
  }
  header += "}";
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (header.size() > kMaxHeaderBytes)
    refuse_to_write(file, "its header would have " + std::to_string(header.size()) + " bytes, more than readers accept");
  return header;
}

}  // namespace

void write_safetensors(const Directory& directory, const std::string& name, std::span<const TensorView> tensors,
                       const std::optional<Metadata>& metadata) {
  std::string file = directory.path() + "/" + name;
  for (const TensorView& tensor : tensors) check(file, tensor);
  check_names(file, tensors, metadata.value_or(Metadata{}));
  std::vector<size_t> order = order_of(tensors);
  std::string header = header_of(file, tensors, order, metadata);
  std::string length;
  for (size_t i = 0; i < kAlignment; ++i) length += static_cast<char>(header.size() >> 8 * i & 0xFF);

  AtomicFile out(directory, name);
  out.write(length);
  out.write(header);
  for (size_t i : order) out.write({reinterpret_cast<const char*>(tensors[i].data.data()), tensors[i].data.size()});
  out.commit();
}

}  // namespace tenon::formats
