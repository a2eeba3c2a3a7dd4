#include "formats/support.h"

#include <malloc.h>
#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <new>
#include <sstream>

namespace {

std::atomic<size_t> live{0}, peak{0}, start{0};

void* counted(size_t size) {
  void* memory = std::malloc(size);
  if (!memory) throw std::bad_alloc();
  size_t now = live += malloc_usable_size(memory);
  for (size_t seen = peak; now > seen && !peak.compare_exchange_weak(seen, now);) continue;
  return memory;
}

void uncounted(void* memory) {
  if (memory) live -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return counted(size); }
void* operator new[](size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, size_t) noexcept { uncounted(memory); }

namespace tenon::formats {

void reset_peak() { start = peak = live.load(); }
size_t peak_bytes() { return peak - start; }

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tenon-formats-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() { std::filesystem::remove_all(path_); }

void TemporaryDirectory::put(const std::string& name, std::string_view contents) const {
  std::ofstream(path_ / name, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
}

std::string TemporaryDirectory::get(const std::string& name) const {
  std::ostringstream out;
  out << std::ifstream(path_ / name, std::ios::binary).rdbuf();
  return out.str();
}

std::string with_length(std::string_view header, std::string_view data) {
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> 8 * i & 0xFF);
  return out.append(header).append(data);
}

std::string entry(std::string_view quoted_name, size_t begin, size_t n) {
  return std::string(quoted_name) + R"(:{"dtype":"U8","shape":[)" + std::to_string(n) + R"(],"data_offsets":[)" + std::to_string(begin) +
         "," + std::to_string(begin + n) + "]}";
}

}  // namespace tenon::formats
