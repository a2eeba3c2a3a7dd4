// The index of a sharded model: which file contains which tensor. Parsing takes less memory than twice the text plus
// 1 MiB. Errors are UserError(format).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::formats {

// Safety limits, far above the sizes of published models; not measured.
constexpr size_t kMaxIndexBytes = 64u << 20;
constexpr size_t kMaxShards = 4096;

class ShardIndex {
 public:
  // The text must outlive this object.
  ShardIndex(std::string_view text, const std::string& source);

  // Entries are sorted by name.
  size_t size() const { return entries_.size(); }
  std::string_view name(size_t i) const { return name_of(entries_.at(i)); }
  const std::string& file(size_t i) const { return files_.at(entries_.at(i).file); }
  size_t file_index(size_t i) const { return entries_.at(i).file; }

  // Returns the index of the file that contains a tensor.
  std::optional<size_t> find(std::string_view name) const;

  // Distinct names of the files; all end in ".safetensors".
  const std::vector<std::string>& files() const { return files_; }

 private:
  friend class IndexParser;
  struct IndexEntry {
    uint32_t name_at;  // Offset in the text, or index in decoded_names_ if the name has escapes.
    uint32_t name_size;
    uint16_t file;
    bool decoded;
  };
  std::string_view name_of(const IndexEntry& entry) const {
    return entry.decoded ? std::string_view(decoded_names_[entry.name_at]) : text_.substr(entry.name_at, entry.name_size);
  }

  std::string_view text_;
  std::deque<IndexEntry> entries_;
  std::deque<std::string> decoded_names_;
  std::vector<std::string> files_;
};

}  // namespace tenon::formats
