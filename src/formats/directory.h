// A model directory. Its own path is trusted. Its files are opened by plain names only, so that neither a name from a file nor a symbolic
// link can lead outside. In the cache of the Hugging Face hub, links are followed that stay in the folder of the model's repository. All
// errors are UserError(file).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::formats {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int fd() const { return fd_; }

 private:
  int fd_;
};

// A private mapping of a file: writes to it stay in this process. Truncating the file while it is mapped ends the process (SIGBUS).
// Replacing it by renaming a new file, as AtomicFile does, is safe.
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

  // Returns whether an entry of this name exists, be it a regular file or not.
  bool has(const std::string& name) const;
  MappedFile map(const std::string& name) const;
  // Rejects files of more than `limit` bytes.
  std::string read_text(const std::string& name, size_t limit) const;
  std::vector<std::string> names() const;

  void write(const std::string& name, std::string_view contents) const;
  // Does nothing if the file does not exist.
  void remove(const std::string& name) const;

 private:
  friend class AtomicFile;
  FileDescriptor open_regular(const std::string& name, size_t* size) const;
  FileDescriptor open_linked(const std::string& name) const;
  void sync() const;
  [[noreturn]] void fail(const std::string& name, const std::string& what) const;

  std::string path_;
  FileDescriptor directory_;
};

// A new file that appears under its name with commit(), complete and synced to disk. Without commit() nothing is left.
class AtomicFile {
 public:
  AtomicFile(const Directory& directory, std::string name);  // `directory` must outlive this object.
  AtomicFile(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);
  void commit();
  // Whether a file of this name was left by a process that was killed while it wrote.
  static bool is_leftover(const std::string& name);

 private:
  [[noreturn]] void fail(const std::string& doing) const;

  const Directory& directory_;
  std::string name_, temporary_;
  FileDescriptor file_;
  bool committed_ = false;
};

}  // namespace tenon::formats
