// Names and links that lead out of the model directory to a valid model, the canary. It must never be read: every
// attempt throws UserError(file), or UserError(format) if an index names a file that is not a safetensors file.
#include <sys/stat.h>

#include "formats/shards.h"
#include "formats/support.h"

namespace tenon::formats {
namespace {

const std::string kCanary = with_length("{" + entry("\"x\"", 0, 6) + "}", "canary");

// The parent of the model directory contains "canary.safetensors" and a folder "beside" with another canary.
class Traversal : public testing::Test {
 protected:
  Traversal() {
    std::filesystem::create_directory(home_ / "model");
    std::filesystem::create_directory(home_ / "model" / "inside");
    std::filesystem::create_directory(home_ / "beside");
    for (const char* name : {"canary.safetensors", "beside/canary.safetensors", "model/inside/canary.safetensors"})
      home_.put(name, kCanary);
  }

  Directory model() const { return Directory(home_.path() + "/model"); }

  static std::string escaped(std::string_view name) {
    std::string out;
    for (char c : name) {
      char text[8];
      std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned char>(c));
      out += text;
    }
    return out;
  }

  static std::string plain(std::string_view name) {
    std::string out;
    for (char c : name) out += c == '\0' ? "\\u0000" : c == '\\' ? "\\\\" : std::string(1, c);
    return out;
  }

  TemporaryDirectory home_;
};

std::vector<std::string> leading_out(const std::string& home) {
  using namespace std::string_literals;
  return {
      "../canary.safetensors",
      "../beside/canary.safetensors",
      "../../canary.safetensors",
      "./../canary.safetensors",
      "././../canary.safetensors",
      ".//..//canary.safetensors",
      "inside/canary.safetensors",
      "./inside/canary.safetensors",
      "inside/../canary.safetensors",
      "inside/../../canary.safetensors",
      "inside/../../beside/canary.safetensors",
      "inside/./canary.safetensors",
      "inside//canary.safetensors",
      "missing/../../canary.safetensors",
      "../model/../canary.safetensors",
      "../model/model.safetensors",
      "./canary.safetensors",
      "/canary.safetensors",
      "//canary.safetensors",
      home + "/canary.safetensors",
      "/" + home + "/canary.safetensors",
      home + "/model/../canary.safetensors",
      home + "/model/inside/canary.safetensors",
      "/proc/self/cwd/canary.safetensors",
      "/proc/self/root" + home + "/canary.safetensors",
      "/dev/fd/0.safetensors",
      "..\\canary.safetensors",
      "..\\..\\canary.safetensors",
      "inside\\canary.safetensors",
      "C:\\canary.safetensors",
      "\\\\host\\share\\canary.safetensors",
      "..\\/canary.safetensors",
      "canary\0.safetensors"s,
      "../canary.safetensors\0.safetensors"s,
      "\0.safetensors"s,
      "a.safetensors/",
      "a.safetensors/.safetensors",
      "a.safetensors/../../canary.safetensors",
      "..",
      ".",
      "",
      "/",
      "//",
      "../",
      "./",
      "...//canary.safetensors",
      "....//....//canary.safetensors",
      "..;/canary.safetensors",
      "%2e%2e/canary.safetensors",
      "..%2f../canary.safetensors",
      "file:///canary.safetensors",
      "http://localhost/canary.safetensors",
      "~/canary.safetensors",
      "$HOME/canary.safetensors",
      "link/canary.safetensors",
      "link/../canary.safetensors",
  };
}

// Each name occurs in an index twice: written plainly and entirely in escapes.
TEST_F(Traversal, NamesInAnIndex) {
  std::filesystem::create_symlink(home_ / "beside", home_ / "model/link");
  home_.put("model/a.safetensors", with_length("{}"));
  int cases = 0;
  for (const std::string& name : leading_out(home_.path()))
    for (const std::string& text : {plain(name), escaped(name)}) {
      ++cases;
      home_.put("model/model.safetensors.index.json", R"({"weight_map":{"x":")" + text + "\"}}");
      bool ending = name.ends_with(".safetensors");
      EXPECT_TRUE(refuses(ending ? ErrorCode::file : ErrorCode::format, ending ? "only plain names" : "must be safetensors files", [&] {
        WeightFiles(this->model());
      })) << name;
    }
  EXPECT_GE(cases, 100);
}

TEST_F(Traversal, NamesGivenToADirectory) {
  std::filesystem::create_symlink(home_ / "beside", home_ / "model/link");
  Directory directory = model();
  for (const std::string& name : leading_out(home_.path())) {
    EXPECT_TRUE(refuses(ErrorCode::file, "only plain names", [&] { directory.has(name); })) << name;
    EXPECT_TRUE(refuses(ErrorCode::file, "only plain names", [&] { directory.map(name); })) << name;
    EXPECT_TRUE(refuses(ErrorCode::file, "only plain names", [&] { directory.read_text(name, 1000); })) << name;
    EXPECT_TRUE(refuses(ErrorCode::file, "only plain names", [&] { directory.write(name, "overwritten"); })) << name;
    EXPECT_TRUE(refuses(ErrorCode::file, "only plain names", [&] { directory.remove(name); })) << name;
  }
  for (const char* name : {"canary.safetensors", "beside/canary.safetensors", "model/inside/canary.safetensors"})
    EXPECT_EQ(home_.get(name), kCanary);
}

TEST_F(Traversal, Links) {
  const std::string out = home_.path() + "/canary.safetensors";
  const std::vector<std::string> targets = {
      out,
      "../canary.safetensors",
      "../beside/canary.safetensors",
      "inside/canary.safetensors",
      "../model/inside/canary.safetensors",
      "chain",
      "loop",
      "model.safetensors",
      "missing",
      "/proc/self/exe",
      "/dev/zero",
      "/etc/passwd",
      "..",
      ".",
  };
  std::filesystem::create_symlink(out, home_ / "model/chain");
  std::filesystem::create_symlink("loop", home_ / "model/loop");
  for (const std::string& target : targets)
    for (const char* name : {"model.safetensors", "shard.safetensors", "model.safetensors.index.json", "config.json"}) {
      std::filesystem::create_symlink(target, home_ / "model" / name);
      bool shard = std::string_view(name) == "shard.safetensors";
      if (shard) home_.put("model/model.safetensors.index.json", R"({"weight_map":{"x":"shard.safetensors"}})");
      auto open = [&] {
        if (std::string_view(name) == "config.json") model().read_text("config.json", 1u << 20);
        else WeightFiles(this->model());
      };
      EXPECT_TRUE(refuses(ErrorCode::file, "--local-dir", open)) << name << " -> " << target;
      std::filesystem::remove(home_ / "model" / name);
      if (shard) std::filesystem::remove(home_ / "model/model.safetensors.index.json");
    }
}

// A hard link is a regular file; a user who can create one could also copy the file.
TEST_F(Traversal, HardLinksAreFiles) {
  std::filesystem::create_hard_link(home_ / "canary.safetensors", home_ / "model/model.safetensors");
  EXPECT_EQ(WeightFiles(model()).size(), 1u);
}

TEST_F(Traversal, FoldersAndPipesAsShards) {
  home_.put("model/model.safetensors.index.json", R"({"weight_map":{"x":"shard.safetensors"}})");
  std::filesystem::create_directory(home_ / "model/shard.safetensors");
  EXPECT_TRUE(refuses(ErrorCode::file, "not a regular file", [&] { WeightFiles(this->model()); }));
  std::filesystem::remove(home_ / "model/shard.safetensors");
  ASSERT_EQ(::mkfifo((home_ / "model/shard.safetensors").c_str(), 0600), 0);
  EXPECT_TRUE(refuses(ErrorCode::file, "not a regular file", [&] { WeightFiles(this->model()); }));
}

TEST_F(Traversal, TheDirectoryItselfMayBeALink) {
  home_.put("model/model.safetensors", kCanary);
  std::filesystem::create_symlink(home_ / "model", home_ / "alias");
  EXPECT_EQ(WeightFiles(Directory(home_.path() + "/alias")).size(), 1u);
}

}  // namespace
}  // namespace tenon::formats
