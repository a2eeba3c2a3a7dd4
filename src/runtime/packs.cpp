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

#include "base/flags.h"
#include "base/process.h"

namespace tenon::runtime {
namespace {

constexpr size_t kPageBytes = 4096;

size_t default_limit() {
  const char* wanted = flag_text(Flag::pack_megabytes);
  return wanted ? static_cast<size_t>(std::max(0LL, std::atoll(wanted))) << 20 : SIZE_MAX;
}

using WeightAddress = std::pair<const c10::StorageImpl*, const void*>;
using PackKey = std::tuple<Form, std::vector<int64_t>, std::vector<WeightAddress>>;

struct PackCache {
  std::mutex mutex;
  std::map<PackKey, std::shared_ptr<const Pack>> all;
  size_t bytes = 0, limit = default_limit();

  void drop_dead() {
    std::erase_if(all, [&](const auto& entry) {
      bool is_dead = entry.second->is_dead();
      if (is_dead) bytes -= entry.second->packed.bytes;
      return is_dead;
    });
  }
};

PackCache& pack_cache() {
  static PackCache* pack_cache = new PackCache;
  return *pack_cache;
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
  std::vector<unsigned char> residency((bytes_ + kPageBytes - 1) / kPageBytes);
  if (mincore(begin_, bytes_, residency.data()) != 0) return bytes_;
  return kPageBytes * static_cast<size_t>(std::count_if(residency.begin(), residency.end(), [](unsigned char page) { return page & 1; }));
}

namespace {

std::array<uint64_t, 16> samples_of(const Weight& weight) {
  std::array<uint64_t, 16> out{};
  size_t step = weight.bytes < sizeof(uint64_t) ? 0 : (weight.bytes - sizeof(uint64_t)) / (out.size() - 1);
  for (size_t i = 0; i < out.size() && weight.bytes >= sizeof(uint64_t); ++i)
    std::memcpy(&out[i], static_cast<const char*>(weight.memory) + step * i, sizeof(uint64_t));
  return out;
}

}  // namespace

std::shared_ptr<Pack> Pack::of(WeightList weights) {
  auto pack = std::make_shared<Pack>();
  for (const Weight& weight : weights) {
    std::shared_ptr<const bridge::Mark> mark = weight.owner ? bridge::mark(weight.owner) : nullptr;
    if (!mark) return nullptr;
    auto held = c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(weight.owner);
    pack->sources_.push_back(
        {c10::weak_intrusive_ptr<c10::StorageImpl>(held), weight.owner, std::move(mark), weight.memory, samples_of(weight)});
  }
  return pack;
}

bool Pack::fits(WeightList weights) const {
  bool ok = weights.size() == sources_.size();
  for (size_t i = 0; i < sources_.size() && ok; ++i) {
    const WeightSource& source = sources_[i];
    ok = weights[i].owner == source.storage && weights[i].memory == source.memory && source.mark->is_current() &&
         samples_of(weights[i]) == source.samples;
  }
  return ok;
}

bool Pack::is_dead() const {
  return std::any_of(sources_.begin(), sources_.end(), [](const WeightSource& s) { return s.owner.expired() || !s.mark->is_current(); });
}

std::shared_ptr<const Pack> find_pack(WeightList weights, Form form, std::vector<int64_t> detail, const std::function<Packed()>& make) {
  NoForkScope scope;
  PackCache& all = pack_cache();
  std::lock_guard lock(all.mutex);
  PackKey key(form, std::move(detail), std::vector<WeightAddress>());
  for (const Weight& weight : weights) std::get<2>(key).emplace_back(weight.owner, weight.memory);
  auto known = all.all.find(key);
  if (known != all.all.end() && known->second->fits(weights)) return known->second;
  if (known != all.all.end()) {
    all.bytes -= known->second->packed.bytes;
    all.all.erase(known);
  }
  all.drop_dead();
  if (all.bytes + weights[0].bytes > all.limit) return nullptr;
  std::shared_ptr<Pack> pack = Pack::of(weights);
  if (!pack) return nullptr;
  pack->packed = make();
  all.bytes += pack->packed.bytes;
  all.all.emplace(std::move(key), pack);
  return pack;
}

std::shared_ptr<const Pack> PackUse::known(WeightList weights, c10::ArrayRef<int64_t> detail) {
  ForkSafeLock lock(mutex_);
  std::shared_ptr<const Pack> known = last_.lock();
  if (!known || detail != c10::ArrayRef<int64_t>(detail_) || !known->fits(weights)) return nullptr;
  ++hits_;
  return known;
}

std::shared_ptr<const Pack> PackUse::get(WeightList weights, Form form, c10::ArrayRef<int64_t> detail,
                                         const std::function<Packed()>& make) {
  if (auto pack = known(weights, detail)) return pack;
  ForkSafeLock lock(mutex_);
  if (until_next_-- > 0) return nullptr;
  // A weight that changes again and again is packed less and less often, at most every 2^10 uses. Estimates, not measured.
  constexpr int64_t kHitsToResetBackoff = 64, kMaxBackoffDoublings = 10;
  if (std::exchange(hits_, 0) > kHitsToResetBackoff) misses_ = 0;
  std::shared_ptr<const Pack> pack = find_pack(weights, form, detail.vec(), make);
  last_ = pack;
  detail_ = detail.vec();
  until_next_ = (int64_t{1} << std::min(misses_++, kMaxBackoffDoublings)) - 1;
  return pack;
}

void PackUse::drop() {
  ForkSafeLock lock(mutex_);
  if (std::shared_ptr<const Pack> last = last_.lock()) drop_pack(last);
  last_.reset();
}

void drop_pack(const std::shared_ptr<const Pack>& pack) {
  NoForkScope scope;
  PackCache& all = pack_cache();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.all, [&](const auto& entry) {
    bool is_it = entry.second == pack;
    if (is_it) all.bytes -= pack->packed.bytes;
    return is_it;
  });
}

size_t pack_bytes() {
  NoForkScope scope;
  PackCache& all = pack_cache();
  std::lock_guard lock(all.mutex);
  all.drop_dead();
  return all.bytes;
}

void set_pack_limit(size_t bytes) {
  NoForkScope scope;
  PackCache& all = pack_cache();
  std::lock_guard lock(all.mutex);
  all.limit = bytes;
  all.drop_dead();
  if (all.bytes <= bytes) return;
  all.all.clear();
  all.bytes = 0;
}

}  // namespace tenon::runtime
