// Arguments of a kernel: buffers that end at an inaccessible page, sizes and scalars. Copies are deep, so that two runs of a kernel
// can start from the same contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "abi/kernel.h"
#include "ir/loop/scalar.h"

namespace tenon::test {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes);  // Filled with a pattern that is not a NaN in any dtype.
  GuardedBuffer(const GuardedBuffer& other);
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer other) noexcept;
  ~GuardedBuffer();

  std::byte* data() const { return end() - bytes_; }
  size_t bytes() const { return bytes_; }
  // Returns whether the bytes between the start of the first page and data() still hold the fill pattern.
  bool front_is_intact() const;

 private:
  std::byte* end() const { return mapping_ + pages_; }

  std::byte* mapping_ = nullptr;
  size_t pages_ = 0;  // Size in bytes, without the guard page.
  size_t bytes_ = 0;
};

struct KernelMemory {
  std::vector<GuardedBuffer> buffers;
  std::vector<int64_t> sizes;
  std::vector<double> scalars;

  // The result is valid until this object is modified or destroyed.
  abi::KernelArguments arguments();
  int64_t length(const ir::loop::LoopKernel& kernel, size_t buffer) const;  // Length in elements.
  ir::loop::ScalarValue get(const ir::loop::LoopKernel& kernel, size_t buffer, int64_t at) const;

 private:
  std::vector<void*> pointers_;
};

// Returns memory whose buffers hold these values, cast to the dtypes of the buffers.
KernelMemory memory_of(const ir::loop::LoopKernel& kernel, const std::vector<std::vector<double>>& buffers, std::vector<int64_t> sizes,
                       std::vector<double> scalars = {});

// Describes the first difference of the outputs, or returns an empty string. All NaNs are equal. `tolerances` has the allowed
// absolute difference of finite values for each buffer; if it is empty, none is allowed.
std::string difference(const ir::loop::LoopKernel& kernel, const KernelMemory& got, const KernelMemory& expected,
                       const std::vector<double>& tolerances = {});

}  // namespace tenon::test
