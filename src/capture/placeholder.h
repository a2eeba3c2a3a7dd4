// Placeholders: storages whose contents are not computed yet.
//
// A placeholder's pointer lies in an address range of its own that nobody may touch. Whoever asks
// for a mutable pointer runs into the storage's materializer, whoever reads through a const one
// into a page fault; both end at the replay that owes the contents.
#pragma once

#include <c10/core/Storage.h>

#include <memory>

namespace tenon::capture {

// A replay that owes contents.
class Debtor {
 public:
  virtual ~Debtor() = default;
  // A mutable pointer into an armed storage (bridge/access.h) is about to be handed out, on any thread.
  virtual void on_access(c10::StorageImpl* storage) = 0;
  // Somebody read at this address; true if the contents are there now.
  virtual bool on_fault(const char* address) = 0;
};

// While it lives, the debtor is found from any thread.
class Enlisted {
 public:
  explicit Enlisted(std::shared_ptr<Debtor> debtor);
  ~Enlisted();
  Enlisted(const Enlisted&) = delete;
  Enlisted& operator=(const Enlisted&) = delete;

 private:
  std::shared_ptr<Debtor> debtor_;
};

// While it lives, pointers that this thread asks for are not announced to anyone.
class Unannounced {
 public:
  Unannounced();
  ~Unannounced();

 private:
  bool before_;
};

// False where the system gives no address space (a tight RLIMIT_AS): then nothing can wait.
bool addresses_are_available();

// Addresses for so many bytes, until they are given back.
class AddressRange {
 public:
  AddressRange() = default;
  explicit AddressRange(size_t bytes);
  const char* begin() const { return begin_; }
  bool contains(const char* address) const { return address >= begin_ && address < begin_ + bytes_; }
  // Makes a copy of these bytes readable here.
  void show(const void* bytes) const;
  // Closes it again if it was shown.
  void close() const;

 private:
  char* begin_ = nullptr;
  size_t bytes_ = 0;
};

// True while more than one debtor is enlisted: then an armed storage may matter to another one. An
// arm that is left behind announces one access to nobody.
bool others_enlisted();

// An armed storage without contents.
c10::Storage make_placeholder(const AddressRange& range, size_t bytes);

}  // namespace tenon::capture
