// Checkpoint directories: complete or absent, deleted in order, and untouched if a later one cannot be written.
#include "train/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>

#include "base/error.h"
#include "formats/directory.h"
#include "support/folder.h"
#include "train/loss_curve.h"
#include "train/tiny.h"

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<int64_t>;

// A full disk: files cannot grow beyond this size.
class FileLimit {
 public:
  explicit FileLimit(size_t bytes) : ignored_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, ignored_);
  }

 private:
  rlimit before_{};
  sighandler_t ignored_;
};

void put(const std::string& directory, const std::string& text) { formats::Directory(directory).write("file", text); }

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Checkpoints, AppearWhole) {
  TemporaryFolder folder;
  std::string output = (folder.path() / "out").string();
  train::prepare_output(output);
  train::write_checkpoint(output, 5, [&](const std::string& directory) {
    EXPECT_TRUE(train::checkpoint_steps(output).empty());
    put(directory, "first");
    EXPECT_TRUE(train::checkpoint_steps(output).empty());
  });
  EXPECT_EQ(train::checkpoint_steps(output), Steps{5});
  train::write_checkpoint(output, 5, [&](const std::string& directory) { put(directory, "second"); });
  EXPECT_EQ(contents_of(output), (std::map<std::string, std::string>{{"checkpoint-5/file", "second"}}));
}

TEST(Checkpoints, AnErrorLeavesEverythingAsItWas) {
  TemporaryFolder folder;
  std::string output = folder.path().string();
  train::write_checkpoint(output, 5, [&](const std::string& directory) { put(directory, "first"); });
  auto before = contents_of(output);
  EXPECT_THROW(train::write_checkpoint(output, 6,
                                       [&](const std::string& directory) {
                                         put(directory, "half");
                                         throw std::runtime_error("stop");
                                       }),
               std::runtime_error);
  try {
    FileLimit limit(1000);
    train::write_checkpoint(output, 6, [&](const std::string& directory) { put(directory, std::string(5000, 'x')); });
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::file);
    expect_parts(error.what(),
                 {"checkpoint-6 cannot be saved", "-new.tmp/file", "File too large", "Free some space", "resume from", "checkpoint-5"});
  }
  EXPECT_EQ(contents_of(output), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(output), fs::directory_iterator()), 1);
}

TEST(Checkpoints, UnfinishedOnesAreRemovedAtTheStart) {
  TemporaryFolder folder;
  std::string output = folder.path().string();
  fs::create_directories(folder.path() / ".checkpoint-7-new.tmp" / "inner");
  fs::create_directories(folder.path() / ".checkpoint-3-old.tmp");
  fs::create_directories(folder.path() / "checkpoint-x");
  fs::create_directories(folder.path() / "mine.tmp");
  EXPECT_TRUE(train::checkpoint_steps(output).empty());
  train::prepare_output(output);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(output)) left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"checkpoint-x", "mine.tmp"}));
}

TEST(Checkpoints, TheOldestAreDeleted) {
  TemporaryFolder folder;
  std::string output = folder.path().string();
  for (int64_t step : {10, 9, 100, 20}) train::write_checkpoint(output, step, [&](const std::string& directory) { put(directory, ""); });
  EXPECT_EQ(train::checkpoint_steps(output), (Steps{9, 10, 20, 100}));
  train::remove_old_checkpoints(output, 0, {});
  EXPECT_EQ(train::checkpoint_steps(output).size(), 4u);
  train::remove_old_checkpoints(output, 3, {});
  EXPECT_EQ(train::checkpoint_steps(output), (Steps{10, 20, 100}));
  train::remove_old_checkpoints(output, 1, 10);
  EXPECT_EQ(train::checkpoint_steps(output), (Steps{10, 100}));
}

TEST(Checkpoints, AFullDiskNamesFileAndRemedy) {
  TemporaryFolder folder;
  TrainingTask task = tiny_task(tiny_network());
  std::optional<FileLimit> limit;
  int calls = 0;
  task.loss = [&, loss = task.loss](const std::vector<torch::Tensor>& batch) {
    if (++calls == 6) limit.emplace(1000);
    return loss(batch);
  };
  Trainer trainer({.output_dir = folder.path().string(), .max_steps = 10, .logging_steps = 1, .save_steps = 2}, task,
                  std::make_shared<LinearExamples>(64));
  try {
    trainer.train();
    FAIL() << "no error";
  } catch (const UserError& error) {
    limit.reset();
    EXPECT_EQ(error.code(), ErrorCode::file);
    expect_parts(error.what(), {"checkpoint-6 cannot be saved", "model.safetensors", "File too large", "Free some space", "checkpoint-4."});
  }
  EXPECT_EQ(train::checkpoint_steps(folder.path().string()), (Steps{2, 4}));
}

TEST(Checkpoints, AnOutputDirectoryThatCannotBeUsed) {
  TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  try {
    train::prepare_output((folder.path() / "file").string());
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::file);
    expect_parts(error.what(), {"cannot be used as output_dir", "Choose a directory"});
  }
}

TEST(LossCurve, HasAxesAndBothCurves) {
  std::string svg = train::loss_curve({{{"step", 10}, {"loss", 2.5}}, {{"step", 20}, {"loss", 1.25}}, {{"step", 20}, {"eval_loss", 1.5}}});
  expect_parts(svg, {"<svg", ">step<", ">loss<", "<polyline", "training loss, last 1.25", "evaluation loss, last 1.5", "</svg>"});
  EXPECT_NE(train::loss_curve({}).find("no loss was logged yet"), std::string::npos);
}

}  // namespace
}  // namespace tenon::test
