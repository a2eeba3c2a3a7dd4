#include "capture/placeholder.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <csignal>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "bridge/access.h"

namespace tenon::capture {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMost = size_t{1} << 44, kLeast = size_t{1} << 32;

thread_local bool t_unannounced = false;

struct Debtors {
  std::mutex mutex;
  std::vector<std::shared_ptr<Debtor>> list;
};

Debtors& debtors() {
  static Debtors* all = new Debtors;
  return *all;
}

std::vector<std::shared_ptr<Debtor>> all_debtors() {
  Debtors& all = debtors();
  std::lock_guard lock(all.mutex);
  return all.list;
}

void on_access(c10::StorageImpl* storage) {
  if (t_unannounced) return;
  for (const auto& debtor : all_debtors()) debtor->on_access(storage);
}

// One reservation for the process. Addresses are handed out round and round; when the first ones
// come again they are long forgotten.
class Reservation {
 public:
  static Reservation& get() {
    static Reservation* reservation = new Reservation;
    return *reservation;
  }

  bool exists() const { return begin_ != nullptr; }

  char* take(size_t bytes) {
    size_t size = (bytes + kPage - 1) / kPage * kPage + kPage;
    size_t at = next_.fetch_add(size, std::memory_order_relaxed) % size_;
    while (at + size > size_) at = next_.fetch_add(size, std::memory_order_relaxed) % size_;
    return begin_ + at;
  }
  bool contains(const void* address) const {
    const char* a = static_cast<const char*>(address);
    return a >= begin_ && a < begin_ + size_;
  }

 private:
  Reservation() {
    for (size_t size = kMost; size >= kLeast && !begin_; size /= 4) {
      void* range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) continue;
      begin_ = static_cast<char*>(range);
      size_ = size;
    }
    if (!begin_) return;
    struct sigaction action {};
    action.sa_sigaction = &on_signal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous());
  }

  static struct sigaction& previous() {
    static struct sigaction action {};
    return action;
  }

  // A fault at one of our addresses is a read of contents that are owed. Everything else goes to
  // whoever was there before.
  static void on_signal(int number, siginfo_t* info, void* context) {
    const char* address = static_cast<const char*>(info->si_addr);
    if (get().contains(address))
      for (const auto& debtor : all_debtors())
        if (debtor->on_fault(address)) return;
    const struct sigaction& before = previous();
    if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
    signal(SIGSEGV, SIG_DFL);  // the load is repeated, and ends the process as it would have
  }

  char* begin_ = nullptr;
  size_t size_ = 0;
  std::atomic<size_t> next_{0};
};

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

Enlisted::Enlisted(std::shared_ptr<Debtor> debtor) : debtor_(std::move(debtor)) {
  bridge::set_listener(&on_access);
  Debtors& all = debtors();
  std::lock_guard lock(all.mutex);
  all.list.push_back(debtor_);
}

Enlisted::~Enlisted() {
  Debtors& all = debtors();
  std::lock_guard lock(all.mutex);
  std::erase(all.list, debtor_);
}

bool others_enlisted() {
  Debtors& all = debtors();
  std::lock_guard lock(all.mutex);
  return all.list.size() > 1;
}

Unannounced::Unannounced() : before_(t_unannounced) { t_unannounced = true; }
Unannounced::~Unannounced() { t_unannounced = before_; }

bool addresses_are_available() { return Reservation::get().exists(); }

AddressRange::AddressRange(size_t bytes) : begin_(Reservation::get().take(bytes)), bytes_(bytes) {}

void AddressRange::show(const void* bytes) const {
  mprotect(begin_, whole_pages(bytes_), PROT_READ | PROT_WRITE);
  std::memcpy(begin_, bytes, bytes_);
  mprotect(begin_, whole_pages(bytes_), PROT_READ);
}

void AddressRange::close() const {
  // Mapped anew, so that the pages are given back too.
  mmap(begin_, whole_pages(bytes_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

c10::Storage make_placeholder(const AddressRange& range, size_t bytes) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(const_cast<char*>(range.begin()), c10::kCPU),
                       c10::GetCPUAllocator(), /*resizable=*/true);
  bridge::arm(storage.unsafeGetStorageImpl());
  return storage;
}

}  // namespace tenon::capture
