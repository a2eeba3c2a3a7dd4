// The parser of the header and its consistency checks. It is hand-written to keep the memory bound and because names
// are views.
#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "formats/json_scanner.h"

namespace tenon::formats {
namespace {

constexpr size_t kLengthBytes = 8;  // The format begins with the length of its header as a 64-bit integer.

[[noreturn]] void refuse(const std::string& source, const std::string& what) { throw UserError(ErrorCode::format, source + ": " + what); }

std::string_view header_of(std::string_view bytes, const std::string& source) {
  if (bytes.size() < kLengthBytes) refuse(source, "has " + std::to_string(bytes.size()) + " bytes, too few for a safetensors file");
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length > kMaxHeaderBytes)
    refuse(source, "according to the first bytes the header has " + std::to_string(length) + " bytes, at most " +
                       std::to_string(kMaxHeaderBytes) + " are supported. Is this a safetensors file?");
  if (length > bytes.size() - kLengthBytes)
    refuse(source, "the header should have " + std::to_string(length) + " bytes, but the file ends " +
                       std::to_string(length - (bytes.size() - kLengthBytes)) + " bytes before that. Was it downloaded completely?");
  std::string_view header = bytes.substr(kLengthBytes, length);
  if (header.empty() || header[0] != '{') refuse(source, "the header does not start with '{'. Is this a safetensors file?");
  return header;
}

}  // namespace

class HeaderParser {
 public:
  HeaderParser(Safetensors& out, const std::string& source) : out_(out), source_(source), scanner_(out.header_, source, kLengthBytes) {}

  void parse() {
    if (scanner_.open('{', '}', "'{'")) do {
        JsonScanner::StringText name = scanner_.key();
        if (JsonScanner::equal(name, "__metadata__")) metadata(name);
        else tensor(name);
      } while (scanner_.more('}'));
    scanner_.end();
    refuse_repeated_names();
    refuse_gaps_and_overlaps();
  }

 private:
  void metadata(const JsonScanner::StringText& name) {
    if (has_metadata_) scanner_.fail_at(name.at, "__metadata__ appears twice in the header");
    has_metadata_ = true;
    if (scanner_.peek() == 'n') return scanner_.word("null");
    Metadata& entries = out_.metadata_.emplace();
    if (scanner_.open('{', '}', "an object of strings")) do {
        JsonScanner::StringText key = scanner_.key();
        if (entries.size() == kMaxMetadataEntries)
          scanner_.fail_at(key.at, "more than " + std::to_string(kMaxMetadataEntries) + " entries of __metadata__");
        std::string text = JsonScanner::decode(key);
        for (const auto& [other, value] : entries)
          if (other == text) scanner_.fail_at(key.at, "the name " + shown(text) + " appears twice in __metadata__");
        entries.emplace_back(std::move(text), JsonScanner::decode(scanner_.string("a string")));
      } while (scanner_.more('}'));
  }

  void tensor(const JsonScanner::StringText& name) {
    Safetensors::Record record{};
    record.name_at = static_cast<uint32_t>(name.at);
    record.name_size = static_cast<uint32_t>(name.raw.size());
    if (name.escaped) {
      record.decoded = true;
      record.name_at = static_cast<uint32_t>(out_.decoded_names_.size());
      out_.decoded_names_.push_back(JsonScanner::decode(name));
    }
    std::array<bool, 3> seen{};
    auto once = [&](size_t which, const JsonScanner::StringText& key) {
      if (std::exchange(seen[which], true)) scanner_.fail_at(key.at, quoted(name) + " has " + std::string(key.raw) + " twice");
    };
    if (scanner_.open('{', '}', "an object that describes a tensor")) do {
        JsonScanner::StringText key = scanner_.key();
        if (JsonScanner::equal(key, "dtype")) {
          once(0, key);
          record.dtype = dtype(name);
        } else if (JsonScanner::equal(key, "shape")) {
          once(1, key);
          shape(name, record);
        } else if (JsonScanner::equal(key, "data_offsets")) {
          once(2, key);
          offsets(record);
        } else {
          scanner_.fail_at(key.at, quoted(name) + " has the unknown field " + shown(key.raw));
        }
      } while (scanner_.more('}'));
    constexpr const char* kFields[] = {"dtype", "shape", "data_offsets"};
    for (size_t i = 0; i < seen.size(); ++i)
      if (!seen[i]) scanner_.fail(quoted(name) + " has no " + kFields[i]);
    check_size(name, record);
    out_.records_.push_back(record);
  }

  Dtype dtype(const JsonScanner::StringText& name) {
    JsonScanner::StringText text = scanner_.string("the name of a dtype");
    std::optional<Dtype> dtype = dtype_of(JsonScanner::decode(text));
    if (!dtype) scanner_.fail_at(text.at, quoted(name) + " has the unknown dtype " + shown(text.raw));
    return *dtype;
  }

  void shape(const JsonScanner::StringText& name, Safetensors::Record& record) {
    scanner_.peek();
    record.shape_at = static_cast<uint32_t>(scanner_.at());
    shape_.clear();
    if (scanner_.open('[', ']', "a list of sizes")) do {
        size_t at = scanner_.at();
        uint64_t size = scanner_.natural("a size, a non-negative integer");
        if (size > static_cast<uint64_t>(INT64_MAX)) scanner_.fail_at(at, "this size is too large");
        if (shape_.size() == kMaxRank) scanner_.fail_at(at, quoted(name) + " has more than " + std::to_string(kMaxRank) + " dimensions");
        shape_.push_back(static_cast<int64_t>(size));
      } while (scanner_.more(']'));
    record.rank = static_cast<uint16_t>(shape_.size());
  }

  void offsets(Safetensors::Record& record) {
    scanner_.expect('[', "two offsets");
    record.begin = scanner_.natural("an offset, a non-negative integer");
    scanner_.expect(',', "two offsets");
    record.end = scanner_.natural("an offset, a non-negative integer");
    scanner_.expect(']', "two offsets");
  }

  void check_size(const JsonScanner::StringText& name, const Safetensors::Record& record) {
    std::optional<uint64_t> size = byte_size(record.dtype, shape_);
    if (!size) scanner_.fail_at(record.shape_at, quoted(name) + " does not have a size in whole bytes that fits 64 bits");
    if (record.end < record.begin || record.end - record.begin != *size)
      scanner_.fail_at(name.at, quoted(name) + " takes " + std::to_string(*size) +
                                    " bytes according to its shape and dtype, but its offsets are " + std::to_string(record.begin) +
                                    " and " + std::to_string(record.end));
    if (record.end > out_.data_.size())
      scanner_.fail_at(name.at, quoted(name) + " ends at byte " + std::to_string(record.end) + ", but there are " +
                                    std::to_string(out_.data_.size()) + " bytes of data. Was the file downloaded completely?");
  }

  void refuse_repeated_names() {
    auto& records = out_.records_;
    std::sort(records.begin(), records.end(), [&](const auto& a, const auto& b) { return out_.name_of(a) < out_.name_of(b); });
    for (size_t i = 1; i < records.size(); ++i)
      if (out_.name(i - 1) == out_.name(i)) refuse(source_, "the tensor " + shown(out_.name(i)) + " appears twice in the header");
  }

  void refuse_gaps_and_overlaps() {
    const auto& records = out_.records_;
    std::vector<uint32_t> order(records.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(records[a].begin, records[a].end) < std::pair(records[b].begin, records[b].end);
    });
    uint64_t covered = 0;
    for (uint32_t i : order) {
      if (records[i].begin < covered) refuse(source_, "the tensor " + shown(out_.name(i)) + " overlaps another one");
      if (records[i].begin > covered) refuse(source_, "the bytes before the tensor " + shown(out_.name(i)) + " belong to no tensor");
      covered = records[i].end;
    }
    if (covered != out_.data_.size())
      refuse(source_, std::to_string(out_.data_.size() - covered) + " bytes at the end belong to no tensor");
  }

  static std::string quoted(const JsonScanner::StringText& name) { return "the tensor " + shown(name.raw); }

  Safetensors& out_;
  const std::string& source_;
  JsonScanner scanner_;
  std::vector<int64_t> shape_;  // Shape of the tensor that is being parsed.
  bool has_metadata_ = false;
};

Safetensors::Safetensors(std::shared_ptr<const MappedFile> file) : Safetensors(file->text(), file->path()) { file_ = std::move(file); }

Safetensors::Safetensors(std::string_view bytes, const std::string& source)
    : header_(header_of(bytes, source)), data_(bytes.substr(kLengthBytes + header_.size())) {
  HeaderParser(*this, source).parse();
}

std::string_view Safetensors::name_of(const Record& record) const {
  return record.decoded ? std::string_view(decoded_names_[record.name_at]) : header_.substr(record.name_at, record.name_size);
}

std::string_view Safetensors::name(size_t i) const { return name_of(records_.at(i)); }

TensorView Safetensors::tensor(size_t i) const {
  const Record& record = records_.at(i);
  TensorView out{name_of(record), record.dtype, std::vector<int64_t>(record.rank), {}};
  const char *at = header_.data() + record.shape_at, *end = header_.data() + header_.size();
  for (int64_t& size : out.shape) {
    at = std::find_if(at, end, [](char c) { return c >= '0' && c <= '9'; });
    at = std::from_chars(at, end, size).ptr;
  }
  out.data = std::as_bytes(std::span(data_.substr(record.begin, record.end - record.begin)));
  return out;
}

std::optional<size_t> Safetensors::find(std::string_view name) const {
  auto record =
      std::lower_bound(records_.begin(), records_.end(), name, [&](const Record& r, std::string_view n) { return name_of(r) < n; });
  if (record == records_.end() || name_of(*record) != name) return std::nullopt;
  return static_cast<size_t>(record - records_.begin());
}

}  // namespace tenon::formats
