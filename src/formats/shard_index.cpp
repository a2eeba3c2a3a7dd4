#include "formats/shard_index.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "formats/json.h"
#include "formats/json_scanner.h"

namespace tenon::formats {

class IndexParser {
 public:
  IndexParser(ShardIndex& out, const std::string& source) : out_(out), source_(source), scanner_(out.text_, source) {}

  void parse() {
    bool has_map = false, has_metadata = false;
    if (scanner_.open('{', '}', "an object with a weight_map")) do {
        JsonScanner::StringText key = scanner_.key();
        bool is_map = JsonScanner::equal(key, "weight_map");
        if (!is_map && !JsonScanner::equal(key, "metadata")) scanner_.fail_at(key.at, "the unknown field " + shown(key.raw));
        if (std::exchange(is_map ? has_map : has_metadata, true))
          scanner_.fail_at(key.at, shown(key.raw) + " appears twice in this object");
        is_map ? weight_map() : metadata();
      } while (scanner_.more('}'));
    scanner_.end();
    if (!has_map) refuse("has no weight_map");
    if (out_.entries_.empty()) refuse("its weight_map is empty");
    sort_entries();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw UserError(ErrorCode::format, source_ + ": " + what); }

  // The metadata is not used, only validated: an index with invalid metadata is not trustworthy.
  void metadata() {
    constexpr int kMaxDepthInside = kMaxJsonDepth - 2;
    bool has_size = false;
    if (scanner_.open('{', '}', "an object")) do {
        JsonScanner::StringText key = scanner_.key();
        if (!JsonScanner::equal(key, "total_size")) {
          scanner_.skip(kMaxDepthInside);
          continue;
        }
        if (std::exchange(has_size, true)) scanner_.fail_at(key.at, "total_size appears twice in this object");
        total_size();
      } while (scanner_.more('}'));
  }

  // Old versions of Transformers write "123.0".
  void total_size() {
    constexpr const char* kExpected = "a count of bytes";
    JsonScanner::NumberText number = scanner_.number(kExpected);
    double bytes = 0;
    bool read = std::from_chars(number.text.data(), number.text.data() + number.text.size(), bytes).ec == std::errc();
    if (!read || bytes != std::floor(bytes) || std::signbit(bytes) || bytes >= 0x1p63)
      scanner_.fail_at(number.at, std::string("total_size must be ") + kExpected);
  }

  void weight_map() {
    if (scanner_.open('{', '}', "an object from tensors to files")) do {
        JsonScanner::StringText name = scanner_.key();
        ShardIndex::IndexEntry entry{static_cast<uint32_t>(name.at), static_cast<uint32_t>(name.raw.size()), 0, name.escaped};
        if (name.escaped) {
          entry.name_at = static_cast<uint32_t>(out_.decoded_names_.size());
          out_.decoded_names_.push_back(JsonScanner::decode(name));
        }
        entry.file = file(name);
        out_.entries_.push_back(entry);
      } while (scanner_.more('}'));
  }

  uint16_t file(const JsonScanner::StringText& tensor) {
    constexpr std::string_view kEnding = ".safetensors";
    JsonScanner::StringText text = scanner_.string("the name of a file");
    auto known = file_indices_.find(text.raw);
    if (known != file_indices_.end()) return known->second;
    std::string name = JsonScanner::decode(text);
    if (!name.ends_with(kEnding) || name.size() == kEnding.size())
      scanner_.fail_at(text.at,
                       "the tensor " + shown(tensor.raw) + " is in " + shown(text.raw) +
                           ". Files of an index must be safetensors files; convert the model with save_pretrained of Transformers");
    if (out_.files_.size() == kMaxShards) scanner_.fail_at(text.at, "more than " + std::to_string(kMaxShards) + " files");
    auto index = static_cast<uint16_t>(out_.files_.size());
    for (size_t i = 0; text.escaped && i < out_.files_.size(); ++i)
      if (out_.files_[i] == name) return static_cast<uint16_t>(i);
    out_.files_.push_back(std::move(name));
    file_indices_.emplace(text.raw, index);
    return index;
  }

  void sort_entries() {
    auto& entries = out_.entries_;
    std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) { return out_.name_of(a) < out_.name_of(b); });
    for (size_t i = 1; i < entries.size(); ++i)
      if (out_.name(i - 1) == out_.name(i)) refuse("the tensor " + shown(out_.name(i)) + " appears twice in the weight_map");
  }

  ShardIndex& out_;
  const std::string& source_;
  JsonScanner scanner_;
  std::map<std::string_view, uint16_t> file_indices_;  // Index of each file, keyed by the text as written.
};

ShardIndex::ShardIndex(std::string_view text, const std::string& source) : text_(text) {
  if (text.size() > kMaxIndexBytes)
    throw UserError(ErrorCode::format, source + ": has " + std::to_string(text.size()) + " bytes, at most " +
                                           std::to_string(kMaxIndexBytes) + " are supported");
  IndexParser(*this, source).parse();
}

std::optional<size_t> ShardIndex::find(std::string_view name) const {
  auto found = std::lower_bound(entries_.begin(), entries_.end(), name,
                                [&](const IndexEntry& entry, std::string_view n) { return name_of(entry) < n; });
  if (found == entries_.end() || name_of(*found) != name) return std::nullopt;
  return found->file;
}

}  // namespace tenon::formats
