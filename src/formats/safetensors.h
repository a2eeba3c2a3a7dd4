// Reads safetensors files without copies: tensors are views into the mapped file. A file is accepted only if its header
// accounts for every byte. Parsing takes less memory than twice the header plus 1 MiB. Errors are UserError(format).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "formats/directory.h"
#include "formats/tensor_view.h"

namespace tenon::formats {

constexpr size_t kMaxHeaderBytes = 100'000'000;  // Limit of the Python package.
constexpr size_t kMaxRank = 64;                  // Limit of numpy.
constexpr size_t kMaxMetadataEntries = 1024;     // Safety limit, not measured.

class Safetensors {
 public:
  explicit Safetensors(std::shared_ptr<const MappedFile> file);
  // The bytes must outlive this object.
  Safetensors(std::string_view bytes, const std::string& source);

  // Tensors are indexed in the order of their names.
  size_t size() const { return records_.size(); }
  std::string_view name(size_t i) const;
  TensorView tensor(size_t i) const;
  std::optional<size_t> find(std::string_view name) const;

  const std::optional<Metadata>& metadata() const { return metadata_; }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }  // Null if constructed from bytes.

 private:
  friend class HeaderParser;

  // Shapes are decoded on access: decoded, they may take four times the memory of their text.
  struct Record {
    uint64_t begin, end;  // Offsets in the data.
    uint32_t name_at;     // Offset in the header, or index in decoded_names_ if the name has escapes.
    uint32_t name_size;
    uint32_t shape_at;
    uint16_t rank;
    Dtype dtype;
    bool decoded;
  };

  std::string_view name_of(const Record& record) const;

  std::shared_ptr<const MappedFile> file_;
  std::string_view header_, data_;
  std::deque<Record> records_;  // A deque grows without copies, which keeps the memory bound.
  std::deque<std::string> decoded_names_;
  std::optional<Metadata> metadata_;
};

}  // namespace tenon::formats
