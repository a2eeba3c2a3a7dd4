// Directories: which files are opened and written, and what remains after a failed write.
#include "formats/directory.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "formats/support.h"

namespace tenon::formats {
namespace {

size_t files_in(const TemporaryDirectory& home) { return Directory(home.path()).names().size(); }

TEST(Directory, OpensPlainFiles) {
  TemporaryDirectory home;
  home.put("a", "contents");
  home.put("empty", "");
  home.put("..a..", "dots");
  Directory directory(home.path());
  EXPECT_TRUE(directory.has("a"));
  EXPECT_FALSE(directory.has("b"));
  EXPECT_EQ(directory.map("a").text(), "contents");
  EXPECT_EQ(directory.map("empty").size(), 0u);
  EXPECT_EQ(directory.map("..a..").text(), "dots");
  EXPECT_EQ(directory.read_text("a", 8), "contents");
  EXPECT_EQ(directory.read_text("empty", 0), "");
}

TEST(Directory, MappedFilesMove) {
  TemporaryDirectory home;
  home.put("a", "first");
  home.put("b", "second");
  Directory directory(home.path());
  MappedFile one = directory.map("a"), two = directory.map("b");
  one = std::move(two);
  EXPECT_EQ(one.text(), "second");
  MappedFile three = std::move(one);
  EXPECT_EQ(three.text(), "second");
  EXPECT_EQ(one.size(), 0u);
}

TEST(Directory, RejectsEntriesThatAreNotRegularFiles) {
  TemporaryDirectory home;
  Directory directory(home.path());
  ASSERT_EQ(::mkdir((home / "folder").c_str(), 0700), 0);
  ASSERT_EQ(::mkfifo((home / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(refuses(ErrorCode::file, "not a regular file", [&] { directory.map("folder"); }));
  EXPECT_TRUE(refuses(ErrorCode::file, "not a regular file", [&] { directory.map("pipe"); }));  // Does not wait for a writer.
  EXPECT_TRUE(refuses(ErrorCode::file, "cannot be opened", [&] { directory.map("missing"); }));
  EXPECT_TRUE(refuses(ErrorCode::file, "cannot be opened as a directory", [&] { Directory(home.path() + "/none"); }));
}

TEST(Directory, RejectsTextThatIsTooLong) {
  TemporaryDirectory home;
  home.put("a", "contents");
  EXPECT_TRUE(refuses(ErrorCode::file, "has 8 bytes, at most 7", [&] { Directory(home.path()).read_text("a", 7); }));
}

TEST(Directory, MessagesShowStrangeNames) {
  TemporaryDirectory home;
  EXPECT_TRUE(refuses(ErrorCode::file, R"("a\x1b[31mb")", [&] { Directory(home.path()).map("a\x1b[31mb"); }));
  EXPECT_TRUE(refuses(ErrorCode::file, "aaa...\"", [&] { Directory(home.path()).map(std::string(200, 'a')); }));
}

TEST(Directory, WritesAreAtomic) {
  TemporaryDirectory home;
  Directory directory(home.path());
  directory.write("a", "first");
  MappedFile before = directory.map("a");
  {
    AtomicFile next(directory, "a");
    next.write("sec");
    next.write("ond");
    EXPECT_EQ(home.get("a"), "first");
    next.commit();
  }
  EXPECT_EQ(home.get("a"), "second");
  EXPECT_EQ(before.text(), "first");  // An open mapping keeps the contents of the old file.
  EXPECT_EQ(files_in(home), 1u);
}

TEST(Directory, NothingIsLeftWithoutCommit) {
  TemporaryDirectory home;
  Directory directory(home.path());
  directory.write("a", "first");
  { AtomicFile(directory, "a").write("second"); }
  EXPECT_EQ(home.get("a"), "first");
  EXPECT_EQ(files_in(home), 1u);
}

TEST(Directory, AFullDiskLeavesTheOldFile) {
  TemporaryDirectory home;
  Directory directory(home.path());
  directory.write("a", "first");
  rlimit before, small{1024, RLIM_INFINITY};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  testing::AssertionResult refused = refuses(ErrorCode::file, "No file was changed", [&] { directory.write("a", std::string(4096, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(refused);
  EXPECT_EQ(home.get("a"), "first");
  EXPECT_EQ(files_in(home), 1u);
}

TEST(Directory, WritingReplacesALinkInsteadOfFollowingIt) {
  TemporaryDirectory home, outside;
  outside.put("canary", "untouched");
  std::filesystem::create_symlink(outside / "canary", home / "a");
  Directory directory(home.path());
  directory.write("a", "new");
  EXPECT_EQ(outside.get("canary"), "untouched");
  EXPECT_EQ(directory.map("a").text(), "new");
}

TEST(Directory, RemovesFiles) {
  TemporaryDirectory home;
  Directory directory(home.path());
  directory.write("a", "first");
  directory.remove("a");
  directory.remove("a");
  EXPECT_FALSE(directory.has("a"));
}

}  // namespace
}  // namespace tenon::formats
