// Programs that read contents on the host, with const pointers and with system calls. The result is a tensor that the host
// fills.
#include <sys/mman.h>
#include <unistd.h>

#include "random_programs/ops.h"

namespace tenon::random_programs {
namespace {

Tensor filled_by_host(double value) {
  Tensor out = torch::empty({}, torch::kDouble);
  *out.mutable_data_ptr<double>() = value;
  return out;
}

double checksum(const unsigned char* bytes, size_t count) {
  unsigned sum = 1;
  for (size_t i = 0; i < count; ++i) sum = sum * 31 + bytes[i];
  return sum % 64;
}

Tensor read_by_pointer(const Tensor& t) {
  require(t.is_non_overlapping_and_dense());
  return filled_by_host(checksum(static_cast<const unsigned char*>(t.const_data_ptr()), t.nbytes()));
}

Tensor read_by_storage(const Tensor& t) {
  require(t.is_non_overlapping_and_dense());
  const auto* begin = static_cast<const unsigned char*>(t.storage().data()) + t.storage_offset() * t.itemsize();
  return filled_by_host(checksum(begin, t.nbytes()));
}

// Reads through a file in memory, like a program that saves a tensor.
Tensor read_by_file(const Tensor& t) {
  require(t.is_non_overlapping_and_dense());
  static const int file = memfd_create("contents", 0);
  std::vector<unsigned char> back(t.nbytes());
  if (pwrite(file, t.const_data_ptr(), t.nbytes(), 0) != static_cast<ssize_t>(t.nbytes())) return filled_by_host(-1);
  if (pread(file, back.data(), back.size(), 0) != static_cast<ssize_t>(back.size())) return filled_by_host(-2);
  return filled_by_host(checksum(back.data(), back.size()));
}

}  // namespace

const std::vector<Op> host_ops = {
    {"read by pointer", Wants::any, 1, Fit::any, DO(read_by_pointer(x[0]))},
    {"read by storage", Wants::any, 1, Fit::any, DO(read_by_storage(x[0]))},
    {"read by file", Wants::any, 1, Fit::any, DO(read_by_file(x[0]))},
    {"read by alias", Wants::any, 1, Fit::any, DO(read_by_pointer(x[0].detach()))},
};

}  // namespace tenon::random_programs
