#include "adapters/files.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <c10/util/strides.h>
#include <c10/util/StringUtil.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "adapters/low_rank.h"
#include "base/error.h"
#include "bridge/parallel.h"
#include "models/weights.h"

namespace tenon::adapters {

namespace {

[[noreturn]] void refuse_tensors(const std::string& text) { throw UserError(ErrorCode::adapter, "adapter_model.safetensors: " + text); }

formats::Safetensors open(const formats::Directory& directory) {
  if (!directory.has("adapter_model.safetensors") && directory.has("adapter_model.bin"))
    throw UserError(ErrorCode::adapter,
                    directory.path() + ": adapter_model.bin is a pickle, which is never opened; save the adapter with safetensors");
  auto file = std::make_shared<const formats::MappedFile>(directory.map("adapter_model.safetensors"));
  // Avoids a page fault per page, since the whole file is read now. Old Linux kernels do not support it, so errors are ignored.
  madvise(const_cast<char*>(file->text().data()), file->size(), MADV_POPULATE_READ);
  return formats::Safetensors(std::move(file));
}

TensorArena arena_for(const formats::Safetensors& file) {
  size_t bytes = 0;
  for (size_t i = 0; i < file.size(); ++i)
    if (file.tensor(i).dtype == formats::Dtype::F32) bytes += TensorArena::bytes_of(file.tensor(i).data.size());
  return TensorArena(bytes);
}

at::ScalarType type_of(const formats::TensorView& view) {
  auto type = models::scalar_type(view.dtype);
  if (!type || !c10::isFloatingType(*type))
    refuse_tensors("tensor \"" + std::string(view.name) + "\" is of type " + formats::dtype_name(view.dtype) +
                   ", which is not supported. Save the adapter in F32, F16 or BF16.");
  return *type;
}

using Floats = float __attribute__((vector_size(16), aligned(4), may_alias));  // A file's data may be unaligned.
using Bits = int __attribute__((vector_size(16)));

Bits not_finite(Floats four) {
  constexpr int kExponent = 0x7f800000;  // NaN and infinity have all exponent bits set.
  return (std::bit_cast<Bits>(four) & kExponent) == kExponent;
}

bool is_none(Bits bits) { return (bits[0] | bits[1] | bits[2] | bits[3]) == 0; }

// Copies floats and returns whether all of them are finite.
bool copy_floats(const std::byte* from, int64_t count, float* to) {
  Bits bad = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    Floats four = *reinterpret_cast<const Floats*>(from + 4 * i);
    bad |= not_finite(four);
    *reinterpret_cast<Floats*>(to + i) = four;
  }
  bool is_finite = is_none(bad);
  for (; i < count; ++i) {
    std::memcpy(to + i, from + 4 * i, 4);
    is_finite &= std::isfinite(to[i]);
  }
  return is_finite;
}

constexpr int64_t kTile = 16;  // Floats of a cache line.

// Transposes a tile of 16 x 16 in 4 x 4 steps, so that whole cache lines are written. Returns whether all elements are finite.
bool transpose_tile(const std::byte* from, int64_t columns, float* to, int64_t rows) {
  float tile[kTile][kTile];
  Bits bad = {};
  for (int64_t i = 0; i < kTile; i += 4)
    for (int64_t k = 0; k < kTile; k += 4) {
      Floats row[4];
      for (int64_t j = 0; j < 4; ++j) {
        row[j] = *reinterpret_cast<const Floats*>(from + 4 * ((i + j) * columns + k));
        bad |= not_finite(row[j]);
      }
      Floats low = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5), high = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
      Floats low2 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5), high2 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
      *reinterpret_cast<Floats*>(&tile[k][i]) = __builtin_shufflevector(low, low2, 0, 1, 4, 5);
      *reinterpret_cast<Floats*>(&tile[k + 1][i]) = __builtin_shufflevector(low, low2, 2, 3, 6, 7);
      *reinterpret_cast<Floats*>(&tile[k + 2][i]) = __builtin_shufflevector(high, high2, 0, 1, 4, 5);
      *reinterpret_cast<Floats*>(&tile[k + 3][i]) = __builtin_shufflevector(high, high2, 2, 3, 6, 7);
    }
  for (int64_t k = 0; k < kTile; ++k) std::memcpy(to + k * rows, tile[k], sizeof tile[k]);
  return is_none(bad);
}

// Transposes [rows, columns] to [columns, rows]. Returns whether all elements are finite.
bool transpose_floats(const std::byte* from, int64_t rows, int64_t columns, float* to) {
  constexpr int64_t kMinTilesPerThread = 16;  // Estimate, not measured.
  int64_t tiles_across = (columns + kTile - 1) / kTile, tiles_down = (rows + kTile - 1) / kTile;
  std::atomic<bool> is_finite = true;
  bridge::parallel_for(0, tiles_down * tiles_across, kMinTilesPerThread, [&](int64_t begin, int64_t end) {
    bool are_finite = true;
    for (int64_t tile = begin; tile < end; ++tile) {
      int64_t row = tile / tiles_across * kTile, column = tile % tiles_across * kTile;
      if (row + kTile <= rows && column + kTile <= columns) {
        are_finite &= transpose_tile(from + 4 * (row * columns + column), columns, to + column * rows + row, rows);
        continue;
      }
      for (int64_t i = row; i < std::min(row + kTile, rows); ++i)
        for (int64_t k = column; k < std::min(column + kTile, columns); ++k)
          are_finite &= copy_floats(from + 4 * (i * columns + k), 1, to + k * rows + i);
    }
    if (!are_finite) is_finite = false;
  });
  return is_finite;
}

}  // namespace

Files::Files(const formats::Directory& directory) : file_(open(directory)), arena_(arena_for(*file_)) {
  for (std::string_view name : names())
    if (name.find("_orig_mod.") != std::string_view::npos)
      refuse_tensors("the name \"" + std::string(name) + "\" comes from torch.compile. Remove the segments _orig_mod. from all names.");
}

std::vector<std::string_view> Files::names() const {
  std::vector<std::string_view> out;
  for (size_t i = 0; file_ && i < file_->size(); ++i) out.push_back(file_->name(i));
  for (const auto& [name, tensor] : tensors_) out.push_back(name);
  return out;
}

const std::byte* Files::floats_of(const std::string& name) const {
  auto found = file_ ? file_->find(name) : std::nullopt;
  if (!found) return nullptr;
  formats::TensorView view = file_->tensor(*found);
  return view.dtype == formats::Dtype::F32 ? view.data.data() : nullptr;
}

at::Tensor Files::converted(const std::string& name) const {
  if (auto known = tensors_.find(name); known != tensors_.end()) return known->second.clone(at::MemoryFormat::Contiguous);
  formats::TensorView view = file_->tensor(*file_->find(name));
  at::Tensor out = at::empty(view.shape, type_of(view));
  if (!view.data.empty()) std::memcpy(out.data_ptr(), view.data.data(), view.data.size());
  return out.scalar_type() == at::kDouble ? out : out.to(at::kFloat);
}

std::optional<std::vector<int64_t>> Files::sizes(const std::string& name) const {
  if (auto known = tensors_.find(name); known != tensors_.end()) return known->second.sizes().vec();
  auto found = file_ ? file_->find(name) : std::nullopt;
  return found ? std::optional(file_->tensor(*found).shape) : std::nullopt;
}

bool Files::has(const std::string& name) const { return sizes(name).has_value(); }

at::Tensor Files::take_any_shape(const std::string& name) {
  if (!has(name)) refuse_tensors("tensor \"" + name + "\" is missing");
  taken_.insert(name);
  bool is_finite = false;
  at::Tensor out;
  if (const std::byte* floats = floats_of(name)) {
    std::vector<int64_t> shape = *sizes(name);
    out = arena_.empty(shape, c10::contiguous_strides(shape));
    is_finite = copy_floats(floats, out.numel(), out.mutable_data_ptr<float>());
  } else {
    out = converted(name);
    is_finite = at::isfinite(out).all().item<bool>();
  }
  if (!is_finite) refuse_tensors("tensor \"" + name + "\" holds NaN or infinity");
  return out;
}

void Files::check_sizes(const std::string& name, at::IntArrayRef wanted) const {
  if (auto known = sizes(name); known && *known != wanted.vec())
    refuse_tensors("tensor \"" + name + "\" has shape " + c10::str(at::IntArrayRef(*known)) + " where the configuration requires " +
                   c10::str(wanted));
}

at::Tensor Files::take(const std::string& name, at::IntArrayRef wanted) {
  check_sizes(name, wanted);
  return take_any_shape(name);
}

at::Tensor Files::take_column_major(const std::string& name, int64_t rows, int64_t columns) {
  check_sizes(name, {rows, columns});
  const std::byte* floats = floats_of(name);
  if (!floats) return to_column_major(take_any_shape(name));
  taken_.insert(name);
  at::Tensor out = arena_.empty({rows, columns}, {1, rows});
  if (!transpose_floats(floats, rows, columns, out.mutable_data_ptr<float>()))
    refuse_tensors("tensor \"" + name + "\" holds NaN or infinity");
  return out;
}

void Files::refuse_rest() const {
  for (std::string_view name : names())
    if (!taken_.contains(name))
      refuse_tensors("tensor \"" + std::string(name) + "\" does not belong to a layer that the configuration chooses");
}

}  // namespace tenon::adapters
