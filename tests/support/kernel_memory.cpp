#include "support/kernel_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

namespace tenon::test {

using ir::DType;
using ir::dtype_size;
using ir::loop::LoopKernel;
using ir::loop::ScalarValue;

namespace {
constexpr std::byte kPattern{0x5A};
}

GuardedBuffer::GuardedBuffer(size_t bytes) : bytes_(bytes) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  pages_ = (bytes / page + 1) * page;  // At least one byte precedes the data.
  void* mapping = mmap(nullptr, pages_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  std::fill(mapping_, end(), kPattern);
  if (mprotect(end(), page, PROT_NONE) != 0) throw std::bad_alloc();
}

GuardedBuffer::GuardedBuffer(const GuardedBuffer& other) : GuardedBuffer(other.bytes_) { std::memcpy(mapping_, other.mapping_, pages_); }

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)), pages_(other.pages_), bytes_(other.bytes_) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(pages_, other.pages_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_) munmap(mapping_, pages_ + static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

bool GuardedBuffer::front_is_intact() const {
  return std::all_of(mapping_, data(), [](std::byte b) { return b == kPattern; });
}

abi::KernelArguments KernelMemory::arguments() {
  pointers_.clear();
  for (const GuardedBuffer& buffer : buffers) pointers_.push_back(buffer.data());
  return {pointers_.data(), sizes.data(), scalars.data()};
}

int64_t KernelMemory::length(const LoopKernel& kernel, size_t buffer) const {
  return static_cast<int64_t>(buffers.at(buffer).bytes()) / dtype_size(kernel.buffers.at(buffer).type);
}

ScalarValue KernelMemory::get(const LoopKernel& kernel, size_t buffer, int64_t at) const {
  return ir::loop::read_element(kernel.buffers.at(buffer).type, buffers.at(buffer).data(), at);
}

KernelMemory memory_of(const LoopKernel& kernel, const std::vector<std::vector<double>>& buffers, std::vector<int64_t> sizes,
                       std::vector<double> scalars) {
  KernelMemory memory;
  memory.sizes = std::move(sizes);
  memory.scalars = std::move(scalars);
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    DType type = kernel.buffers[i].type;
    const std::vector<double>& numbers = buffers.at(i);
    memory.buffers.emplace_back(numbers.size() * dtype_size(type));
    for (size_t at = 0; at < numbers.size(); ++at)
      write_element(ir::loop::scalar_value(type, numbers[at]), memory.buffers[i].data(), static_cast<int64_t>(at));
  }
  return memory;
}

namespace {

bool are_alike(const ScalarValue& a, const ScalarValue& b, double tolerance) {
  if (!is_floating(a.type)) return a.integer == b.integer;
  if (std::isnan(a.real) || std::isnan(b.real)) return std::isnan(a.real) && std::isnan(b.real);
  if (std::isinf(a.real) || std::isinf(b.real)) return a.real == b.real;
  return std::fabs(a.real - b.real) <= tolerance;
}

std::string text(const ScalarValue& n) { return is_floating(n.type) ? std::to_string(n.real) : std::to_string(n.integer); }

}  // namespace

std::string difference(const LoopKernel& kernel, const KernelMemory& got, const KernelMemory& expected,
                       const std::vector<double>& tolerances) {
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    std::string name = "p" + std::to_string(i);
    if (!got.buffers[i].front_is_intact()) return name + ": bytes before it were overwritten";
    bool is_exact = !kernel.buffers[i].is_output || kernel.buffers[i].type == DType::boolean;
    if (is_exact && std::memcmp(got.buffers[i].data(), expected.buffers[i].data(), expected.buffers[i].bytes()) != 0)
      return name + ": its bytes differ";
    double tolerance = tolerances.empty() ? 0 : tolerances.at(i);
    for (int64_t at = 0; at < expected.length(kernel, i); ++at) {
      ScalarValue a = got.get(kernel, i, at), b = expected.get(kernel, i, at);
      if (!are_alike(a, b, tolerance))
        return name + "[" + std::to_string(at) + "]: " + text(a) + " instead of " + text(b) + ", tolerance " + std::to_string(tolerance);
    }
  }
  return "";
}

}  // namespace tenon::test
