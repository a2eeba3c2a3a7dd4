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

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void refuse(const Directory& directory, ErrorCode code, const std::string& what) {
  throw UserError(code, directory.path() + ": " + what);
}

[[noreturn]] void refuse_no_model(const Directory& directory) {
  for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (directory.has(pickle))
      refuse(directory, ErrorCode::file,
             std::string("the weights are in ") + pickle +
                 ", a pickle, which can run any program when it is loaded and is therefore never opened. Convert it where you trust it: "
                 "load the "
                 "model with Transformers and call save_pretrained(DIRECTORY)");
  refuse(directory, ErrorCode::file, std::string("there is neither ") + kWhole + " nor " + kIndex);
}

// "model-00002-of-00003.safetensors"
std::string shard_name(size_t number, size_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", number, count);
  return text;
}

bool is_shard_name(const std::string& name) {
  const std::string pattern = shard_name(0, 0);
  return std::equal(name.begin(), name.end(), pattern.begin(), pattern.end(),
                    [](char c, char p) { return p == '0' ? c >= '0' && c <= '9' : c == p; });
}

using Shard = std::vector<TensorView>;

// As Transformers does it: a tensor that is larger than a shard gets its own, and the open shard stays open.
std::vector<Shard> split(std::span<const TensorView> tensors, uint64_t max_shard_bytes) {
  std::vector<Shard> out;
  Shard open;
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

std::string index_text(const std::vector<Shard>& shards) {
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

Weights::Weights(const Directory& directory) {
  bool whole = directory.has(kWhole), indexed = directory.has(kIndex);
  if (whole && indexed)
    refuse(directory, ErrorCode::format,
           std::string("there are both ") + kWhole + " and " + kIndex + "; remove the one that is out of date");
  if (!whole && !indexed) refuse_no_model(directory);
  whole ? open_one(directory) : open_indexed(directory);
  for (uint32_t shard = 0; shard < shards_.size(); ++shard)
    for (uint32_t i = 0; i < shards_[shard].size(); ++i) places_.push_back({shard, i});
  std::sort(places_.begin(), places_.end(), [&](const Place& a, const Place& b) { return name(a) < name(b); });
}

void Weights::open_one(const Directory& directory) { shards_.emplace_back(std::make_shared<const MappedFile>(directory.map(kWhole))); }

void Weights::open_indexed(const Directory& directory) {
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
    size_t shard = index.file_number(i);
    if (!shards_[shard].find(index.name(i)))
      refuse(
          directory, ErrorCode::format,
          std::string(kIndex) + " says that the tensor " + shown(index.name(i)) + " lies in " + shown(index.file(i)) + ", but it does not");
    ++mapped[shard];
  }
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    if (mapped[shard] == shards_[shard].size()) continue;
    for (size_t i = 0; i < shards_[shard].size(); ++i)
      if (index.find(shards_[shard].name(i)) != shard)
        refuse(directory, ErrorCode::format,
               "the tensor " + shown(shards_[shard].name(i)) + " lies in " + shown(index.files()[shard]) + ", but " + kIndex +
                   " does not say so");
  }
}

Weights::Located Weights::at(size_t i) const {
  const Place& place = places_.at(i);
  return {shards_[place.shard].tensor(place.number), shards_[place.shard].file()};
}

std::optional<Weights::Located> Weights::find(std::string_view wanted) const {
  auto place = std::lower_bound(places_.begin(), places_.end(), wanted, [&](const Place& p, std::string_view n) { return name(p) < n; });
  if (place == places_.end() || name(*place) != wanted) return std::nullopt;
  return at(static_cast<size_t>(place - places_.begin()));
}

void write_weights(const Directory& directory, std::span<const TensorView> tensors, const std::optional<Metadata>& metadata,
                   uint64_t max_shard_bytes) {
  std::set<std::string_view> names;
  for (const TensorView& tensor : tensors)
    if (!names.insert(tensor.name).second) refuse(directory, ErrorCode::format, "the tensor " + shown(tensor.name) + " is given twice");
  std::vector<Shard> shards = split(tensors, max_shard_bytes);
  std::set<std::string> written;
  if (shards.size() == 1) {
    write_safetensors(directory, kWhole, shards[0], metadata);
    written.insert(kWhole);
  } else {
    directory.remove(kIndex);  // or it would name a mixture of old and new files for a while
    for (size_t i = 0; i < shards.size(); ++i) {
      std::string name = shard_name(i + 1, shards.size());
      write_safetensors(directory, name, shards[i], metadata);
      written.insert(name);
    }
    directory.write(kIndex, index_text(shards));
    written.insert(kIndex);
  }
  for (const std::string& name : directory.names())
    if ((name == kWhole || name == kIndex || is_shard_name(name)) && !written.contains(name)) directory.remove(name);
}

}  // namespace tenon::formats
