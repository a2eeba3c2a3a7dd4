// What a kernel runs on: buffers that end at a page nobody may touch, sizes and scalars. Copies are
// deep, so that two ways to run a kernel can start from the same contents.
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
  explicit GuardedBuffer(size_t bytes);  // filled with a pattern that is a NaN in no type
  GuardedBuffer(const GuardedBuffer& other);
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer other) noexcept;
  ~GuardedBuffer();

  std::byte* data() const { return end() - bytes_; }
  size_t bytes() const { return bytes_; }
  // The bytes between the first page's begin and data() are as they were filled.
  bool front_is_intact() const;

 private:
  std::byte* end() const { return mapping_ + pages_; }

  std::byte* mapping_ = nullptr;
  size_t pages_ = 0;  // in bytes, without the guard
  size_t bytes_ = 0;
};

struct KernelMemory {
  std::vector<GuardedBuffer> buffers;
  std::vector<int64_t> sizes;
  std::vector<double> scalars;

  // Valid until this is changed or gone.
  abi::KernelArguments arguments();
  int64_t length(const ir::loop::LoopKernel& kernel, size_t buffer) const;  // in elements
  ir::loop::ScalarValue get(const ir::loop::LoopKernel& kernel, size_t buffer, int64_t at) const;

 private:
  std::vector<void*> pointers_;
};

// Memory whose buffers hold these numbers, cast to the buffers' types.
KernelMemory memory_of(const ir::loop::LoopKernel& kernel, const std::vector<std::vector<double>>& buffers, std::vector<int64_t> sizes,
                       std::vector<double> scalars = {});

// "" if all outputs are alike; a NaN is like a NaN. `tolerances`: how far apart finite numbers may
// be, for each buffer; none means not at all.
std::string difference(const ir::loop::LoopKernel& kernel, const KernelMemory& got, const KernelMemory& expected,
                       const std::vector<double>& tolerances = {});

}  // namespace tenon::test
