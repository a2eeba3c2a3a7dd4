// Tensors that announce reads. `has_storage()` and `storage()` are virtual in libtorch 2.13, and every accessor of a
// tensor's contents calls one of them before it returns a pointer, const or not. A read of pending contents is therefore
// noticed without a page fault: system calls on the pointer, blocked signals and debuggers see ordinary memory.
#pragma once

#include <c10/core/TensorImpl.h>

namespace tenon::capture {

class ObservedTensor final : public c10::TensorImpl {
 public:
  using c10::TensorImpl::TensorImpl;

  bool has_storage() const override;
  const c10::Storage& storage() const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allow_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version, bool allow_metadata_change) const override;

 private:
  void announce() const;
};

// Suppresses announcements of reads on this thread while it exists. libtorch's own code calls has_storage() and
// use_count() in places where it reads no contents.
class LibraryCode {
 public:
  explicit LibraryCode(bool on);
  ~LibraryCode();

 private:
  bool before_;
};

// Turns a tensor of the program into an observed one, permanently. Only a plain TensorImpl is changed: its virtual table is
// replaced, which is why ObservedTensor adds no members. Subclasses stay as they are, and reads of them are noticed by page
// faults.
void observe(c10::TensorImpl* tensor);

}  // namespace tenon::capture
