// Prepacked weights, with which products are faster. A pack is valid as long as nobody could have changed
// its weight; all packs of the process share one memory limit.
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

// Layout of a weight; each product lists the forms that it can use.
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

// Memory pages, unmapped by the destructor.
class Pages {
 public:
  explicit Pages(size_t bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void* begin() const { return begin_; }
  size_t resident() const;  // Number of bytes in pages that have been written to.

 private:
  void* begin_;
  size_t bytes_;
};

// The contents of a pack: pages, or tensors. `tensor` may have a layout that only its library understands.
struct Packed {
  std::shared_ptr<const Pages> pages;
  at::Tensor tensor, bias;
  size_t bytes = 0;
};

// The memory of a weight, dense and without overlaps. `owner` is null if changes of the memory cannot be detected.
struct Weight {
  c10::StorageImpl* owner = nullptr;
  const void* memory = nullptr;
  size_t bytes = 0;
  static Weight of(const at::Tensor& tensor) { return {bridge::owner_of(tensor), tensor.const_data_ptr(), tensor.nbytes()}; }
};
using WeightList = c10::ArrayRef<Weight>;

class Pack {
 public:
  // Returns null if changes of one of the weights cannot be detected.
  static std::shared_ptr<Pack> of(WeightList weights);

  // Whether the pack was made from the current contents of these weights.
  bool fits(WeightList weights) const;
  bool is_dead() const;
  Packed packed;

 private:
  struct WeightSource {
    c10::weak_intrusive_ptr<c10::StorageImpl> owner;
    const c10::StorageImpl* storage;
    std::shared_ptr<const bridge::Mark> mark;
    const void* memory;
    // A few words of the weight. They detect most writes through pointers from before the mark, which nothing else notices.
    std::array<uint64_t, 16> samples;
  };
  std::vector<WeightSource> sources_;
};

// The cached pack of these weights, or a new one made by `make`. `detail` (sizes, strides) distinguishes packs of the same form and
// memory. Returns null if changes of the weights cannot be detected, or if the memory limit is reached.
std::shared_ptr<const Pack> find_pack(WeightList weights, Form form, std::vector<int64_t> detail, const std::function<Packed()>& make);

// The use of a pack by one step. Weights that keep changing are packed at exponentially growing intervals.
class PackUse {
 public:
  std::shared_ptr<const Pack> get(WeightList weights, Form form, c10::ArrayRef<int64_t> detail, const std::function<Packed()>& make);
  // The pack of the last call, if it is still valid; otherwise null.
  std::shared_ptr<const Pack> known(WeightList weights, c10::ArrayRef<int64_t> detail);
  // Removes the pack from the cache.
  void drop();

 private:
  std::mutex mutex_;
  std::weak_ptr<const Pack> last_;
  std::vector<int64_t> detail_;
  int64_t misses_ = 0, hits_ = 0, until_next_ = 0;
};

// Removes a pack from the cache. Its current users keep it alive.
void drop_pack(const std::shared_ptr<const Pack>& pack);

size_t pack_bytes();
void set_pack_limit(size_t bytes);

}  // namespace tenon::runtime
