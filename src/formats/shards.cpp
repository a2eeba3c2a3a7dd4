#include "formats/shards.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "formats/safetensors_writer.h"
#include "formats/shard_index.h"

namespace tenon::formats {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void refuse(const Directory& directory, ErrorCode code, const std::string& what) {
  throw UserError(code, directory.path() + ": " + what);
}

[[noreturn]] void refuse_no_model(const Directory& directory) {
  for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (directory.has(pickle))
      refuse(directory, ErrorCode::file,
             std::string("the weights are in ") + pickle +
                 ", a pickle. Loading a pickle can execute arbitrary code, so it is never opened. If you trust it, convert it: load the "
                 "model with Transformers and call save_pretrained(DIRECTORY)");
  refuse(directory, ErrorCode::file, std::string("there is neither ") + kSingleFile + " nor " + kIndex);
}

// Returns a name such as "model-00002-of-00003.safetensors"; shards count from 1.
std::string shard_name(size_t shard, size_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", shard, count);
  return text;
}

bool is_shard_name(const std::string& name) {
  const std::string pattern = shard_name(0, 0);
  return std::equal(name.begin(), name.end(), pattern.begin(), pattern.end(),
                    [](char c, char p) { return p == '0' ? c >= '0' && c <= '9' : c == p; });
}

using ShardTensors = std::vector<TensorView>;

// Splits like Transformers: a tensor larger than a shard gets its own shard, and the current shard is continued.
std::vector<ShardTensors> split(std::span<const TensorView> tensors, uint64_t max_shard_bytes) {
  std::vector<ShardTensors> out;
  ShardTensors open;
  uint64_t filled = 0;
  for (const TensorView& tensor : tensors) {
    if (tensor.data.size() > max_shard_bytes) {
      out.push_back({tensor});
      continue;
    }
    if (filled + tensor.data.size() > max_shard_bytes) {
      out.push_back(std::exchange(open, {}));
      filled = 0;
    }
    open.push_back(tensor);
    filled += tensor.data.size();
  }
  if (!open.empty() || out.empty()) out.push_back(std::move(open));
  return out;
}

std::string index_text(const std::vector<ShardTensors>& shards) {
  uint64_t bytes = 0, parameters = 0;
  nlohmann::json map = nlohmann::json::object();
  for (size_t i = 0; i < shards.size(); ++i)
    for (const TensorView& tensor : shards[i]) {
      map[std::string(tensor.name)] = shard_name(i + 1, shards.size());
      bytes += tensor.data.size();
      parameters += tensor.data.size() * 8 / dtype_bits(tensor.dtype);
    }
  nlohmann::json index = {{"metadata", {{"total_parameters", parameters}, {"total_size", bytes}}}, {"weight_map", std::move(map)}};
  return index.dump(2, ' ', true) + "\n";
}

}  // namespace

WeightFiles::WeightFiles(const Directory& directory) {
  bool whole = directory.has(kSingleFile), indexed = directory.has(kIndex);
  if (whole && indexed)
    refuse(directory, ErrorCode::format,
           std::string("there are both ") + kSingleFile + " and " + kIndex + "; remove the one that is out of date");
  if (!whole && !indexed) refuse_no_model(directory);
  whole ? open_one(directory) : open_indexed(directory);
  for (uint32_t shard = 0; shard < shards_.size(); ++shard)
    for (uint32_t i = 0; i < shards_[shard].size(); ++i) locations_.push_back({shard, i});
  std::sort(locations_.begin(), locations_.end(), [&](const TensorLocation& a, const TensorLocation& b) { return name(a) < name(b); });
}

void WeightFiles::open_one(const Directory& directory) {
  shards_.emplace_back(std::make_shared<const MappedFile>(directory.map(kSingleFile)));
}

void WeightFiles::open_indexed(const Directory& directory) {
  MappedFile text = directory.map(kIndex);
  ShardIndex index(text.text(), text.path());
  shards_.reserve(index.files().size());
  for (const std::string& file : index.files()) {
    if (!directory.has(file))
      refuse(directory, ErrorCode::file,
             std::string(kIndex) + " names the file " + shown(file) + ", which is not there. Was all of the model downloaded?");
    shards_.emplace_back(std::make_shared<const MappedFile>(directory.map(file)));
  }
  std::vector<size_t> mapped(shards_.size(), 0);
  for (size_t i = 0; i < index.size(); ++i) {
    size_t shard = index.file_index(i);
    if (!shards_[shard].find(index.name(i)))
      refuse(
          directory, ErrorCode::format,
          std::string(kIndex) + " maps the tensor " + shown(index.name(i)) + " to " + shown(index.file(i)) + ", which does not contain it");
    ++mapped[shard];
  }
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    if (mapped[shard] == shards_[shard].size()) continue;
    for (size_t i = 0; i < shards_[shard].size(); ++i)
      if (index.find(shards_[shard].name(i)) != shard)
        refuse(directory, ErrorCode::format,
               "the tensor " + shown(shards_[shard].name(i)) + " is in " + shown(index.files()[shard]) + ", but " + kIndex +
                   " does not list it there");
  }
}

WeightFiles::MappedTensor WeightFiles::at(size_t i) const {
  const TensorLocation& location = locations_.at(i);
  return {shards_[location.shard].tensor(location.index), shards_[location.shard].file()};
}

std::optional<WeightFiles::MappedTensor> WeightFiles::find(std::string_view wanted) const {
  auto location = std::lower_bound(locations_.begin(), locations_.end(), wanted,
                                   [&](const TensorLocation& p, std::string_view n) { return name(p) < n; });
  if (location == locations_.end() || name(*location) != wanted) return std::nullopt;
  return at(static_cast<size_t>(location - locations_.begin()));
}

void write_weights(const Directory& directory, std::span<const TensorView> tensors, const std::optional<Metadata>& metadata,
                   uint64_t max_shard_bytes) {
  std::set<std::string_view> names;
  for (const TensorView& tensor : tensors)
    if (!names.insert(tensor.name).second) refuse(directory, ErrorCode::format, "the tensor " + shown(tensor.name) + " is given twice");
  std::vector<ShardTensors> shards = split(tensors, max_shard_bytes);
  std::set<std::string> written;
  if (shards.size() == 1) {
    write_safetensors(directory, kSingleFile, shards[0], metadata);
    written.insert(kSingleFile);
  } else {
    directory.remove(kIndex);  // Otherwise it would refer to a mixture of old and new files during the save.
    for (size_t i = 0; i < shards.size(); ++i) {
      std::string name = shard_name(i + 1, shards.size());
      write_safetensors(directory, name, shards[i], metadata);
      written.insert(name);
    }
    directory.write(kIndex, index_text(shards));
    written.insert(kIndex);
  }
  for (const std::string& name : directory.names())
    if ((name == kSingleFile || name == kIndex || is_shard_name(name)) && !written.contains(name)) directory.remove(name);
}

}  // namespace tenon::formats
