#include "formats/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace tenon::formats {
namespace {

std::string reason() { return std::strerror(errno); }

void check_plain(const std::string& directory, const std::string& name) {
  bool plain = !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (plain) return;
  throw UserError(ErrorCode::file, "the name " + shown(name) + " does not name a file of the directory " + directory +
                                       "; only plain names are opened, without slashes and \"..\"");
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

MappedFile::MappedFile(const FileDescriptor& file, size_t size, std::string path) : size_(size), path_(std::move(path)) {
  if (size_ == 0) return;  // mmap rejects an empty range.
  start_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.fd(), 0);
  if (start_ == MAP_FAILED) {
    start_ = nullptr;
    throw UserError(ErrorCode::file, path_ + ": cannot be mapped: " + reason());
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), size_(std::exchange(other.size_, 0)), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(start_, other.start_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (start_) ::munmap(start_, size_);
}

Directory::Directory(std::string path) : path_(std::move(path)), directory_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (directory_.fd() < 0) throw UserError(ErrorCode::file, path_ + ": cannot be opened as a directory: " + reason());
}

void Directory::fail(const std::string& name, const std::string& what) const {
  std::string quoted = shown(name);
  bool printable = quoted.size() == name.size() + 2;
  throw UserError(ErrorCode::file, path_ + "/" + (printable ? name : quoted) + ": " + what);
}

bool Directory::has(const std::string& name) const {
  check_plain(path_, name);
  struct stat status;
  if (::fstatat(directory_.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno != ENOENT) fail(name, "cannot be looked up: " + reason());
  return false;
}

FileDescriptor Directory::open_regular(const std::string& name, size_t* size) const {
  check_plain(path_, name);
  // O_NONBLOCK, because opening a pipe would block until it has a writer.
  FileDescriptor file(::openat(directory_.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.fd() < 0) {
    if (errno == ELOOP)
      fail(name,
           "is a symbolic link, which is not followed. The cache of the Hugging Face hub contains links: download the model to a separate "
           "directory (hf download MODEL --local-dir DIRECTORY)");
    fail(name, "cannot be opened: " + reason());
  }
  struct stat status;
  if (::fstat(file.fd(), &status) != 0) fail(name, "cannot be examined: " + reason());
  if (!S_ISREG(status.st_mode)) fail(name, "is not a regular file");
  *size = static_cast<size_t>(status.st_size);
  return file;
}

MappedFile Directory::map(const std::string& name) const {
  size_t size = 0;
  FileDescriptor file = open_regular(name, &size);
  return MappedFile(file, size, path_ + "/" + name);
}

std::string Directory::read_text(const std::string& name, size_t limit) const {
  size_t size = 0;
  FileDescriptor file = open_regular(name, &size);
  if (size > limit) fail(name, "has " + std::to_string(size) + " bytes, at most " + std::to_string(limit) + " are supported");
  std::string text(size, '\0');
  size_t have = 0;
  while (have < size) {
    ssize_t got = ::read(file.fd(), text.data() + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(name, "cannot be read: " + reason());
    if (got == 0) fail(name, "became shorter while it was read");
    have += static_cast<size_t>(got);
  }
  return text;
}

std::vector<std::string> Directory::names() const {
  int again = ::openat(directory_.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // A separate descriptor has its own read position.
  DIR* list = again < 0 ? nullptr : ::fdopendir(again);
  if (!list) {
    if (again >= 0) ::close(again);
    throw UserError(ErrorCode::file, path_ + ": cannot be listed: " + reason());
  }
  std::vector<std::string> out;
  while (const dirent* entry = ::readdir(list)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") out.push_back(std::move(name));
  }
  ::closedir(list);
  return out;
}

void Directory::write(const std::string& name, std::string_view contents) const {
  AtomicFile file(*this, name);
  file.write(contents);
  file.commit();
}

void Directory::remove(const std::string& name) const {
  check_plain(path_, name);
  if (::unlinkat(directory_.fd(), name.c_str(), 0) != 0) {
    if (errno == ENOENT) return;
    fail(name, "cannot be removed: " + reason());
  }
  sync();
}

void Directory::sync() const {
  if (::fsync(directory_.fd()) != 0) throw UserError(ErrorCode::file, path_ + ": cannot be synchronised with the disk: " + reason());
}

AtomicFile::AtomicFile(const Directory& directory, std::string name) : directory_(directory), name_(std::move(name)) {
  check_plain(directory_.path_, name_);
  static std::atomic<unsigned> counter{0};
  // A killed process with the same id may have left files of these names. Safety limit, not measured.
  constexpr int kMaxTries = 100;
  for (int i = 0; i < kMaxTries && file_.fd() < 0; ++i) {
    temporary_ = ".tenon-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
    file_ = FileDescriptor(
        ::openat(directory_.directory_.fd(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file_.fd() < 0 && errno != EEXIST) break;
  }
  if (file_.fd() < 0) directory_.fail(name_, "cannot create a temporary file beside it: " + reason());
}

AtomicFile::~AtomicFile() {
  if (!committed_ && file_.fd() >= 0) ::unlinkat(directory_.directory_.fd(), temporary_.c_str(), 0);
}

void AtomicFile::fail(const std::string& doing) const { directory_.fail(name_, doing + " failed: " + reason() + ". No file was changed"); }

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t done = ::write(file_.fd(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("writing");
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

void AtomicFile::commit() {
  if (::fsync(file_.fd()) != 0) fail("writing to the disk");
  int directory = directory_.directory_.fd();
  if (::renameat(directory, temporary_.c_str(), directory, name_.c_str()) != 0) fail("renaming the temporary file");
  committed_ = true;
  directory_.sync();
}

}  // namespace tenon::formats
