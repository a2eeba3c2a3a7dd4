// Weights in other forms, which libraries multiply by faster. A pack serves for as long as nobody could
// have changed its weight; all packs of the process share one limit of memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "bridge/access.h"

namespace tenon::runtime {

// How a weight is laid out; each product names the forms it can use.
enum class Form : uint8_t {
#define TENON_FORM(name, text) name,
#include "runtime/forms.def"
#undef TENON_FORM
};
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

// What a form is made of: pages, or a tensor of a library's.
struct Packed {
  std::shared_ptr<const Pages> pages;
  at::Tensor tensor;
  size_t bytes = 0;
};

class Pack {
 public:
  Pack(const at::Tensor& weight, std::shared_ptr<const bridge::Mark> mark);

  // Whether it is of this weight, as the weight is now.
  bool fits(const at::Tensor& weight) const;
  bool is_dead() const { return owner_.expired() || !mark_->is_current(); }
  Packed packed;

 private:
  // A few of its words: a pointer from before the mark could be written through without a word to anyone.
  using Samples = std::array<uint64_t, 16>;
  static Samples samples_of(const at::Tensor& weight);

  c10::weak_intrusive_ptr<c10::StorageImpl> owner_;
  const c10::StorageImpl* storage_;
  std::shared_ptr<const bridge::Mark> mark_;
  const void* memory_;
  Samples samples_;
};

// The pack of a weight, dense without overlaps, that is known or is made now by `make`. Null: it cannot be watched, there is no
// room for it, or `make` gave nothing.
std::shared_ptr<const Pack> find_pack(const at::Tensor& weight, Form form, const std::function<Packed(const at::Tensor&)>& make);

// Forgets a pack; who uses it keeps it so long.
void drop_pack(const std::shared_ptr<const Pack>& pack);

size_t pack_bytes();
void set_pack_limit(size_t bytes);

}  // namespace tenon::runtime
