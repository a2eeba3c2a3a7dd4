// Reads safetensors files where they lie: tensors are views into the mapped file. A file is taken only if its
// header says exactly what every byte of it is. While it is read, memory stays below twice the header and 1 MiB.
// Faults are UserError(format).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "formats/directory.h"
#include "formats/tensor_view.h"

namespace tenon::formats {

constexpr size_t kMaxHeader = 100'000'000;  // the Python package's own limit
constexpr size_t kMaxRank = 64;             // numpy's
constexpr size_t kMaxMetadata = 1024;

class Safetensors {
 public:
  explicit Safetensors(std::shared_ptr<const MappedFile> file);
  // The bytes must outlive this.
  Safetensors(std::string_view bytes, const std::string& source);

  // Tensors count in the order of their names.
  size_t size() const { return records_.size(); }
  std::string_view name(size_t i) const;
  TensorView tensor(size_t i) const;
  std::optional<size_t> find(std::string_view name) const;

  const std::optional<Metadata>& metadata() const { return metadata_; }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }  // null if it was made from bytes

 private:
  friend class HeaderParser;

  // Shapes stay text until somebody asks: decoded, they may take four times as much.
  struct Record {
    uint64_t begin, end;  // in the data
    uint32_t name_at;     // in the header; in decoded_names_ if the name holds escapes
    uint32_t name_size;
    uint32_t shape_at;
    uint16_t rank;
    Dtype dtype;
    bool decoded;
  };

  std::string_view name_of(const Record& record) const;

  std::shared_ptr<const MappedFile> file_;
  std::string_view header_, data_;
  std::deque<Record> records_;  // grows without copies, so that the bound on memory holds
  std::deque<std::string> decoded_names_;
  std::optional<Metadata> metadata_;
};

}  // namespace tenon::formats
