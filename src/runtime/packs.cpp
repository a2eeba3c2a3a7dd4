#include "runtime/packs.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <tuple>
#include <vector>

namespace tenon::runtime {
namespace {

constexpr size_t kPage = 4096;

size_t first_limit() {
  const char* wanted = std::getenv("TENON_PACK_MB");
  return wanted ? static_cast<size_t>(std::max(0LL, std::atoll(wanted))) << 20 : SIZE_MAX;
}

// Memory and geometry of a weight, and a form.
using Key = std::tuple<const c10::StorageImpl*, const void*, std::vector<int64_t>, std::vector<int64_t>, Form>;

struct Packs {
  std::mutex mutex;
  std::map<Key, std::shared_ptr<const Pack>> all;
  size_t bytes = 0, limit = first_limit();

  void drop_dead() {
    std::erase_if(all, [&](const auto& entry) {
      bool is_dead = entry.second->is_dead();
      if (is_dead) bytes -= entry.second->packed.bytes;
      return is_dead;
    });
  }
};

Packs& packs() {
  static Packs* packs = new Packs;
  return *packs;
}

}  // namespace

const char* form_name(Form form) {
  static constexpr const char* kNames[] = {
#define TENON_FORM(name, text) text,
#include "runtime/forms.def"
#undef TENON_FORM
  };
  return kNames[static_cast<size_t>(form)];
}

Pages::Pages(size_t bytes) : bytes_(bytes) {
  begin_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin_ == MAP_FAILED) throw std::bad_alloc();
}

Pages::~Pages() { munmap(begin_, bytes_); }

size_t Pages::resident() const {
  std::vector<unsigned char> there((bytes_ + kPage - 1) / kPage);
  if (mincore(begin_, bytes_, there.data()) != 0) return bytes_;
  return kPage * static_cast<size_t>(std::count_if(there.begin(), there.end(), [](unsigned char page) { return page & 1; }));
}

Pack::Pack(const at::Tensor& weight, std::shared_ptr<const bridge::Mark> mark)
    : owner_(c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(bridge::owner_of(weight))),
      storage_(bridge::owner_of(weight)),
      mark_(std::move(mark)),
      memory_(weight.const_data_ptr()),
      samples_(samples_of(weight)) {}

Pack::Samples Pack::samples_of(const at::Tensor& weight) {
  Samples out{};
  const char* memory = static_cast<const char*>(weight.const_data_ptr());
  size_t bytes = weight.nbytes();
  for (size_t i = 0; i < out.size() && bytes >= sizeof(uint64_t); ++i)
    std::memcpy(&out[i], memory + (bytes - sizeof(uint64_t)) / (out.size() - 1) * i, sizeof(uint64_t));
  return out;
}

bool Pack::fits(const at::Tensor& weight) const {
  return bridge::owner_of(weight) == storage_ && weight.const_data_ptr() == memory_ && mark_->is_current() &&
         samples_ == samples_of(weight);
}

std::shared_ptr<const Pack> find_pack(const at::Tensor& weight, Form form, const std::function<Packed(const at::Tensor&)>& make) {
  c10::StorageImpl* owner = bridge::owner_of(weight);
  if (!owner) return nullptr;
  Packs& all = packs();
  std::lock_guard lock(all.mutex);
  Key key{owner, weight.const_data_ptr(), weight.sizes().vec(), weight.strides().vec(), form};
  auto known = all.all.find(key);
  if (known != all.all.end() && known->second->fits(weight)) return known->second;
  if (known != all.all.end()) {
    all.bytes -= known->second->packed.bytes;
    all.all.erase(known);
  }
  all.drop_dead();
  if (all.bytes + weight.nbytes() > all.limit) return nullptr;
  std::shared_ptr<const bridge::Mark> mark = bridge::mark(owner);
  if (!mark) return nullptr;
  auto pack = std::make_shared<Pack>(weight, mark);
  pack->packed = make(weight);
  if (pack->packed.bytes == 0) return nullptr;
  all.bytes += pack->packed.bytes;
  all.all.emplace(std::move(key), pack);
  return pack;
}

void drop_pack(const std::shared_ptr<const Pack>& pack) {
  Packs& all = packs();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.all, [&](const auto& entry) {
    bool is_it = entry.second == pack;
    if (is_it) all.bytes -= pack->packed.bytes;
    return is_it;
  });
}

size_t pack_bytes() {
  Packs& all = packs();
  std::lock_guard lock(all.mutex);
  all.drop_dead();
  return all.bytes;
}

void set_pack_limit(size_t bytes) {
  Packs& all = packs();
  std::lock_guard lock(all.mutex);
  all.limit = bytes;
  all.drop_dead();
  if (all.bytes <= bytes) return;
  all.all.clear();
  all.bytes = 0;
}

}  // namespace tenon::runtime
