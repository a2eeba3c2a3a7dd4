// The index of a model in several files: which tensor lies in which file. Memory stays below twice the text
// and 1 MiB. Faults are UserError(format).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::formats {

constexpr size_t kMaxIndex = 64u << 20;
constexpr size_t kMaxShards = 4096;

class ShardIndex {
 public:
  // The text must outlive this.
  ShardIndex(std::string_view text, const std::string& source);

  // Entries count in the order of their names.
  size_t size() const { return entries_.size(); }
  std::string_view name(size_t i) const { return name_of(entries_.at(i)); }
  const std::string& file(size_t i) const { return files_.at(entries_.at(i).file); }
  size_t file_number(size_t i) const { return entries_.at(i).file; }

  // Which file a tensor lies in.
  std::optional<size_t> find(std::string_view name) const;

  // Each once, all of them with names that end in ".safetensors".
  const std::vector<std::string>& files() const { return files_; }

 private:
  friend class IndexParser;
  struct Entry {
    uint32_t name_at;  // in decoded_names_ if the name holds escapes
    uint32_t name_size;
    uint16_t file;
    bool decoded;
  };
  std::string_view name_of(const Entry& entry) const {
    return entry.decoded ? std::string_view(decoded_names_[entry.name_at]) : text_.substr(entry.name_at, entry.name_size);
  }

  std::string_view text_;
  std::deque<Entry> entries_;
  std::deque<std::string> decoded_names_;
  std::vector<std::string> files_;
};

}  // namespace tenon::formats
