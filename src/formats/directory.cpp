#include "formats/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace tenon::formats {
namespace {

constexpr const char *kTemporaryPrefix = ".tenon-", *kTemporarySuffix = ".tmp";

std::string reason() { return std::strerror(errno); }

void check_plain(const std::string& directory, const std::string& name) {
  bool plain = !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (plain) return;
  throw UserError(ErrorCode::file, "the name " + shown(name) + " does not name a file of the directory " + directory +
                                       "; only plain names are opened, without slashes and \"..\"");
}

// The longest target of a link that is read. Safety limit; those of the hub's cache have up to 76 bytes.
constexpr size_t kMaxLinkBytes = 1024;

// Opens an entry of a folder. A link is an error (ELOOP). O_NONBLOCK, because opening a pipe would block until it has a writer.
FileDescriptor open_file(const FileDescriptor& folder, const std::string& name) {
  return FileDescriptor(::openat(folder.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

FileDescriptor open_folder(int from, const std::string& name) {
  return FileDescriptor(::openat(from, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Opens a folder inside another one. No part of the path may be a link.
FileDescriptor open_below(const FileDescriptor& folder, const std::vector<std::string>& path) {
  FileDescriptor out = open_folder(folder.fd(), ".");
  for (size_t i = 0; i < path.size() && out.fd() >= 0; ++i) out = open_folder(out.fd(), path[i]);
  return out;
}

bool is_same(const FileDescriptor& a, const FileDescriptor& b) {
  struct stat first, second;
  if (::fstat(a.fd(), &first) != 0 || ::fstat(b.fd(), &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find('/', begin), path.size());
    out.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// A model in the cache of the Hugging Face hub: the folder models--ORGANISATION--NAME, and the path from there to a snapshot or a folder of
// one: snapshots/REVISION.
struct Repository {
  std::string path;
  std::vector<std::string> snapshot;
};

std::optional<Repository> find_repository(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> parts = split_path(std::filesystem::canonical(directory, error).string());
  if (error) return std::nullopt;
  for (size_t i = parts.size(); i-- > 0;) {
    bool is_repository = parts[i].starts_with("models--") && i + 2 < parts.size() && parts[i + 1] == "snapshots";
    if (!is_repository) continue;
    Repository out;
    for (size_t k = 0; k <= i; ++k) out.path += (k > 0 ? "/" : "") + parts[k];
    out.snapshot.assign(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1, parts.end());
    return out;
  }
  return std::nullopt;
}

// Returns the path of a link's target inside a folder, if it stays there. `from` is the path of the link's own folder.
std::optional<std::vector<std::string>> resolve(std::vector<std::string> from, const std::string& target) {
  if (target.starts_with('/')) return std::nullopt;
  for (std::string& part : split_path(target)) {
    if (part.empty() || part == ".") continue;
    if (part != "..") from.push_back(std::move(part));
    else if (from.empty()) return std::nullopt;
    else from.pop_back();
  }
  if (from.empty()) return std::nullopt;
  return from;
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
  FileDescriptor file = open_file(directory_, name);
  if (file.fd() < 0 && errno == ELOOP) file = open_linked(name);
  else if (file.fd() < 0) fail(name, "cannot be opened: " + reason());
  struct stat status;
  if (::fstat(file.fd(), &status) != 0) fail(name, "cannot be examined: " + reason());
  if (!S_ISREG(status.st_mode)) fail(name, "is not a regular file");
  *size = static_cast<size_t>(status.st_size);
  return file;
}

// The path of a link's target is resolved here, not by the kernel: from the repository's folder downwards, through folders that are no
// links themselves. So whatever another process changes meanwhile, the file was inside the folder when it was opened.
FileDescriptor Directory::open_linked(const std::string& name) const {
  auto refuse = [&](const std::string& why) {
    fail(name,
         "is a symbolic link, which is not followed: " + why +
             ". Only links of the Hugging Face hub's cache are followed, inside the folder of one model (models--ORGANISATION--NAME). "
             "Download the model to a separate directory (hf download MODEL --local-dir DIRECTORY)");
  };
  std::string target(kMaxLinkBytes, '\0');
  ssize_t length = ::readlinkat(directory_.fd(), name.c_str(), target.data(), target.size());
  if (length < 0) fail(name, "cannot be read as a link: " + reason());
  if (static_cast<size_t>(length) == target.size()) refuse("its target is too long");
  target.resize(static_cast<size_t>(length));
  std::optional<Repository> repository = find_repository(path_);
  if (!repository) refuse("the directory is not a snapshot in that cache");

  FileDescriptor folder = open_folder(AT_FDCWD, repository->path), snapshot = open_below(folder, repository->snapshot);
  if (!is_same(snapshot, directory_)) refuse("the directory was moved while it was read");
  std::optional<std::vector<std::string>> inside = resolve(repository->snapshot, target);
  if (!inside) refuse("its target " + shown(target) + " is outside of that folder");
  std::string last = std::move(inside->back());
  inside->pop_back();
  FileDescriptor parent = open_below(folder, *inside), file;
  if (parent.fd() >= 0) file = open_file(parent, last);
  if (file.fd() < 0 && errno == ELOOP) refuse("its target " + shown(target) + " is a link too");
  if (file.fd() < 0)
    fail(name, "is a symbolic link to " + shown(target) + ", which cannot be opened: " + reason() + ". Download the model again");
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
    temporary_ = kTemporaryPrefix + std::to_string(::getpid()) + "-" + std::to_string(counter++) + kTemporarySuffix;
    file_ = FileDescriptor(
        ::openat(directory_.directory_.fd(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file_.fd() < 0 && errno != EEXIST) break;
  }
  if (file_.fd() < 0) directory_.fail(name_, "cannot create a temporary file beside it: " + reason());
}

AtomicFile::~AtomicFile() {
  if (!committed_ && file_.fd() >= 0) ::unlinkat(directory_.directory_.fd(), temporary_.c_str(), 0);
}

bool AtomicFile::is_leftover(const std::string& name) { return name.starts_with(kTemporaryPrefix) && name.ends_with(kTemporarySuffix); }

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
