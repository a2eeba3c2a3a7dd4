// The cache of the Hugging Face hub: links that stay in the folder of a model's repository are followed. All others throw UserError(file).
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "formats/shards.h"
#include "formats/support.h"

namespace tenon::formats {
namespace {

const std::string kBlob = with_length("{" + entry("\"x\"", 0, 4) + "}", "blob");
const std::string kCanary = with_length("{" + entry("\"x\"", 0, 6) + "}", "canary");

// hub/models--org--name with a snapshot and two blobs. Canaries are outside of it: beside the folder, in another model's folder, and above.
class HubCache : public testing::Test {
 protected:
  HubCache() {
    for (const char* folder : {"blobs", "refs", "snapshots/abc/sub", "snapshots/def"})
      std::filesystem::create_directories(repository_ / folder);
    std::filesystem::create_directories(home_ / "hub/models--org--other/blobs");
    for (const char* name : {"blobs/123", "snapshots/def/file"}) home_.put("hub/models--org--name/" + std::string(name), kBlob);
    for (const char* name : {"canary", "hub/canary", "hub/models--org--other/blobs/123"}) home_.put(name, kCanary);
  }

  void link(const std::string& name, const std::string& target) {
    std::filesystem::remove(snapshot_ / name);
    std::filesystem::create_symlink(target, snapshot_ / name);
  }
  std::string text_of(const std::string& name) const { return Directory(snapshot_.string()).read_text(name, 1000); }

  TemporaryDirectory home_;
  std::filesystem::path repository_ = home_ / "hub/models--org--name", snapshot_ = repository_ / "snapshots/abc";
};

TEST_F(HubCache, LinksInsideAreFollowed) {
  for (const char* target :
       {"../../blobs/123", "../..//./blobs/123", "../def/file", "../../snapshots/def/file", "../../refs/../blobs/123"}) {
    link("model.safetensors", target);
    EXPECT_EQ(text_of("model.safetensors"), kBlob) << target;
    EXPECT_EQ(WeightFiles(Directory(snapshot_.string())).size(), 1u) << target;
  }
}

TEST_F(HubCache, FoldersOfASnapshot) {
  std::filesystem::create_symlink("../../../blobs/123", snapshot_ / "sub/file");
  EXPECT_EQ(Directory((snapshot_ / "sub").string()).map("file").text(), kBlob);
}

TEST_F(HubCache, TheSnapshotMayBeReachedByALink) {
  link("file", "../../blobs/123");
  std::filesystem::create_symlink(snapshot_, home_ / "alias");
  EXPECT_EQ(Directory(home_.path() + "/alias").map("file").text(), kBlob);
}

TEST_F(HubCache, LinksThatLeaveAreRefused) {
  std::filesystem::create_symlink("123", repository_ / "blobs/chain");
  std::filesystem::create_symlink(home_ / "canary", repository_ / "blobs/out");
  std::filesystem::create_symlink(home_.path(), repository_ / "away");
  const std::string other = "hub/models--org--other/blobs/123";
  for (const std::string& target : std::vector<std::string>{home_.path() + "/canary",
                                                            (repository_ / "blobs/123").string(),
                                                            "../../../canary",
                                                            "../../../../canary",
                                                            "../../../../" + other,
                                                            "../../../models--org--other/blobs/123",
                                                            "../../../models--org--name/blobs/123",
                                                            "../../blobs/../../canary",
                                                            "../../blobs/chain",
                                                            "../../blobs/out",
                                                            "file",
                                                            "..",
                                                            "../..",
                                                            "../../..",
                                                            ".",
                                                            "/",
                                                            "/etc/passwd",
                                                            "/proc/self/exe",
                                                            "../../../../../../../../etc/passwd",
                                                            "../../" + std::string(2000, 'a')}) {
    link("file", target);
    EXPECT_TRUE(refuses(ErrorCode::file, "", [&] { text_of("file"); })) << target;
    EXPECT_TRUE(refuses(ErrorCode::file, "", [&] { Directory(snapshot_.string()).map("file"); })) << target;
  }
  link("file", "../../../canary");
  EXPECT_TRUE(refuses(ErrorCode::file, "is outside of that folder", [&] { text_of("file"); }));
  link("file", "../../blobs/out");
  EXPECT_TRUE(refuses(ErrorCode::file, "is a link too", [&] { text_of("file"); }));
  link("file", "../../away/canary");
  EXPECT_TRUE(refuses(ErrorCode::file, "cannot be opened", [&] { text_of("file"); }));
}

TEST_F(HubCache, OnlyRegularFilesAreOpened) {
  ASSERT_EQ(::mkfifo((repository_ / "blobs/pipe").c_str(), 0600), 0);
  link("file", "../../blobs/pipe");
  EXPECT_TRUE(refuses(ErrorCode::file, "not a regular file", [&] { text_of("file"); }));
  link("file", "../../blobs");
  EXPECT_TRUE(refuses(ErrorCode::file, "not a regular file", [&] { text_of("file"); }));
  link("file", "../../blobs/missing");
  EXPECT_TRUE(refuses(ErrorCode::file, "Download the model again", [&] { text_of("file"); }));
}

// The same links in a folder that is no repository, or not in `snapshots`.
TEST_F(HubCache, OtherFoldersHaveNoLinks) {
  for (const char* name : {"hub/model/snapshots/abc", "hub/models--a--b/revisions/abc", "hub/models--a--b/snapshots"}) {
    std::filesystem::path folder = home_ / name;
    std::filesystem::create_directories(folder);
    std::filesystem::create_directories(folder / "../../blobs");
    home_.put(name + std::string("/../../blobs/123"), kCanary);
    std::filesystem::create_symlink("../../blobs/123", folder / "file");
    EXPECT_TRUE(refuses(ErrorCode::file, "not a snapshot in that cache", [&] { Directory(folder.string()).map("file"); })) << name;
    std::filesystem::remove_all(folder / "../../blobs");
  }
}

TEST_F(HubCache, WritingReplacesALink) {
  link("file", "../../blobs/123");
  Directory(snapshot_.string()).write("file", "new");
  EXPECT_EQ(text_of("file"), "new");
  EXPECT_EQ(Directory((repository_ / "blobs").string()).read_text("123", 1000), kBlob);
}

// Another thread exchanges the link and the folder of blobs while the file is read. The canary is never read.
TEST_F(HubCache, ExchangedLinks) {
  std::filesystem::create_symlink(home_ / "hub/models--org--other/blobs", repository_ / "outside");
  link("file", "../../blobs/123");
  std::atomic<bool> stops{false};
  std::thread other([&] {
    auto exchange = [&](const std::filesystem::path& a, const std::filesystem::path& b) {
      ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
    };
    std::filesystem::create_symlink("../../../models--org--other/blobs/123", snapshot_ / "leads out");
    while (!stops) {
      exchange(repository_ / "blobs", repository_ / "outside");
      exchange(snapshot_ / "file", snapshot_ / "leads out");
    }
  });
  int read = 0;
  for (int i = 0; i < 5000; ++i) {
    try {
      EXPECT_EQ(text_of("file"), kBlob);
      ++read;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ErrorCode::file) << error.what();
    }
  }
  stops = true;
  other.join();
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace tenon::formats
