// Weights in other forms, which libraries multiply by faster. A pack serves for as long as nobody could
// have changed its weight; all packs of the process share one limit of memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "bridge/access.h"

namespace tenon::runtime {

// How a weight is laid out; each product names the forms it can use.
enum class Form : uint8_t {
#define TENON_FORM(name, text) name,
#include "runtime/forms.def"
#undef TENON_FORM
};
inline constexpr size_t kForms = 0
#define TENON_FORM(name, text) +1
#include "runtime/forms.def"
#undef TENON_FORM
    ;
const char* form_name(Form form);

// Pages that are given back with it.
class Pages {
 public:
  explicit Pages(size_t bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void* begin() const { return begin_; }
  size_t resident() const;  // bytes that something was written to, in whole pages

 private:
  void* begin_;
  size_t bytes_;
};

// What a form is made of: pages, or tensors, one of them of a library's own kind.
struct Packed {
  std::shared_ptr<const Pages> pages;
  at::Tensor tensor, row;
  size_t bytes = 0;
};

// Where a weight lies, dense without overlaps, and whose memory that is; null: of nobody who would tell.
struct Weight {
  c10::StorageImpl* owner = nullptr;
  const void* memory = nullptr;
  size_t bytes = 0;
  static Weight of(const at::Tensor& tensor) { return {bridge::owner_of(tensor), tensor.const_data_ptr(), tensor.nbytes()}; }
};
using Weights = c10::ArrayRef<Weight>;

class Pack {
 public:
  // Null: somebody could change one of them without a word.
  static std::shared_ptr<Pack> of(Weights weights);

  // Whether it is of these weights, as they are now.
  bool fits(Weights weights) const;
  bool is_dead() const;
  Packed packed;

 private:
  struct Source {
    c10::weak_intrusive_ptr<c10::StorageImpl> owner;
    const c10::StorageImpl* storage;
    std::shared_ptr<const bridge::Mark> mark;
    const void* memory;
    // A few of its words: a pointer from before the mark could be written through without a word to anyone.
    std::array<uint64_t, 16> samples;
  };
  std::vector<Source> sources_;
};

// The pack of some weights that is known or is made now by `make`; `detail` tells packs of one form and memory apart: sizes,
// strides. Null: they cannot be watched, or there is no room.
std::shared_ptr<const Pack> find_pack(Weights weights, Form form, std::vector<int64_t> detail, const std::function<Packed()>& make);

// Where a pack of one form is used again and again. Weights that keep changing are packed ever more rarely.
class PackUse {
 public:
  std::shared_ptr<const Pack> get(Weights weights, Form form, c10::ArrayRef<int64_t> detail, const std::function<Packed()>& make);
  // The pack of the last time, if it still fits.
  std::shared_ptr<const Pack> known(Weights weights, c10::ArrayRef<int64_t> detail);
  // It is not needed here any more.
  void drop();

 private:
  std::mutex mutex_;
  std::weak_ptr<const Pack> last_;
  std::vector<int64_t> detail_;
  int64_t misses_ = 0, hits_ = 0, until_next_ = 0;
};

// Forgets a pack; who uses it keeps it so long.
void drop_pack(const std::shared_ptr<const Pack>& pack);

size_t pack_bytes();
void set_pack_limit(size_t bytes);

}  // namespace tenon::runtime
