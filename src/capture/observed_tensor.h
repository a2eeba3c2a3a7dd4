// Tensors that announce reads. `has_storage()` and `storage()` are virtual in libtorch 2.13, and every accessor
// of a tensor's contents calls one of them before it hands out a pointer, const or not. So a read of contents
// that are still pending is noticed where it happens, without a page fault: system calls on the pointer, blocked
// signals and debuggers see ordinary memory.
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

// While it lives, reads on this thread are not announced: libtorch's own code asks whether a tensor has a storage, and
// for its reference count, where it reads no contents.
class LibraryCode {
 public:
  explicit LibraryCode(bool on);
  ~LibraryCode();

 private:
  bool before_;
};

// Makes a tensor of the program's an observed one, for good. Only a plain TensorImpl is changed: its virtual
// table is replaced, which is why ObservedTensor adds no members. Other kinds stay as they are, and reads of
// them are noticed by page faults.
void observe(c10::TensorImpl* tensor);

}  // namespace tenon::capture
