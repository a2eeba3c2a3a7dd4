// A model directory. Its own path is trusted; what lies in it is opened by plain names only, so that no name
// from a file, and no link, leads outside. All faults are UserError(file).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::formats {

class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor();

  int number() const { return number_; }

 private:
  int number_;
};

// A file's bytes. What is written to them stays in this process. A file that somebody shortens while it is mapped ends the process
// (SIGBUS); writers that rename a new file into place, as ours do, are harmless.
class MappedFile {
 public:
  MappedFile(const FileDescriptor& file, size_t size, std::string path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::string_view text() const { return {static_cast<const char*>(start_), size_}; }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  void* start_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

class Directory {
 public:
  explicit Directory(std::string path);

  const std::string& path() const { return path_; }

  // Whether anything has this name, be it a regular file or not.
  bool has(const std::string& name) const;
  MappedFile map(const std::string& name) const;
  // Refuses files of more than `limit` bytes.
  std::string read_text(const std::string& name, size_t limit) const;
  std::vector<std::string> names() const;

  void write(const std::string& name, std::string_view contents) const;
  // A file that is not there is no error.
  void remove(const std::string& name) const;

 private:
  friend class AtomicFile;
  FileDescriptor open_regular(const std::string& name, size_t* size) const;
  void sync() const;
  [[noreturn]] void fail(const std::string& name, const std::string& what) const;

  std::string path_;
  FileDescriptor directory_;
};

// A new file that appears under its name, whole and on disk, with commit(); without it nothing is left behind.
class AtomicFile {
 public:
  AtomicFile(const Directory& directory, std::string name);  // the directory must outlive this
  AtomicFile(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);
  void commit();

 private:
  [[noreturn]] void fail(const std::string& doing) const;

  const Directory& directory_;
  std::string name_, temporary_;
  FileDescriptor file_;
  bool committed_ = false;
};

}  // namespace tenon::formats
