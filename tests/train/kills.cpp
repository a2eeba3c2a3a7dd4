// Trainings that are killed at random moments end with the same bytes, and signals end a training after a checkpoint. TENON_TRAIN_KILLS is
// the number of killed trainings.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "support/folder.h"
#include "train/checkpoint.h"
#include "train/tiny.h"

extern char** environ;

namespace tenon::test {
namespace {

using std::chrono::milliseconds;
constexpr int kMillisecondsPerStep = 4;
const char* const kUndisturbed = "whole";

// A process of train_loop whose stderr goes to a file.
class LoopProcess {
 public:
  LoopProcess(const std::filesystem::path& output, bool resume, int milliseconds_per_step = kMillisecondsPerStep)
      : errors_(output.string() + ".stderr") {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::string path = TENON_TRAIN_LOOP, directory = output.string(), pause = std::to_string(milliseconds_per_step), again = "resume";
    char* arguments[] = {path.data(), directory.data(), pause.data(), resume ? again.data() : nullptr, nullptr};
    // Background jobs of a shell ignore SIGINT, and so would the process.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    EXPECT_EQ(posix_spawn(&pid_, path.c_str(), &actions, &attributes, arguments, environ), 0);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    ready_ = ends[0];
  }
  ~LoopProcess() {
    close(ready_);
    if (pid_ > 0 && !is_reaped_) kill(pid_, SIGKILL), wait();
  }
  LoopProcess(const LoopProcess&) = delete;

  void wait_until_ready() const {
    char byte;
    EXPECT_EQ(read(ready_, &byte, 1), 1) << errors();
  }
  void send(int number) const { kill(pid_, number); }
  // Returns the status as waitpid gives it.
  int wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    is_reaped_ = true;
    return status;
  }
  std::string errors() const {
    std::ifstream file(errors_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string errors_;
  pid_t pid_ = -1;
  int ready_ = -1;
  bool is_reaped_ = false;
};

// The files of a finished training, without the folder's own path, which trainer_state.json contains.
std::map<std::string, std::string> results_of(const std::filesystem::path& output) {
  auto files = contents_of(output);
  for (auto& [name, text] : files)
    for (size_t at; (at = text.find(output.string())) != std::string::npos;) text.replace(at, output.string().size(), "OUTPUT");
  return files;
}

class Kills : public testing::Test {
 protected:
  std::filesystem::path finish(const std::string& name, bool resume) {
    std::filesystem::path output = folder_.path() / name;
    LoopProcess process(output, resume);
    int status = process.wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << process.errors();
    return output;
  }
  TemporaryFolder folder_;
};

TEST_F(Kills, KilledTrainingsEndWithTheSameBytes) {
  const char* wanted = std::getenv("TENON_TRAIN_KILLS");
  int runs = wanted ? std::atoi(wanted) : 4, resumed = 0;
  auto seed = static_cast<unsigned>(std::chrono::system_clock::now().time_since_epoch().count());
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  auto expected = results_of(finish(kUndisturbed, false));
  ASSERT_TRUE(expected.contains("checkpoint-40/model.safetensors"));
  for (int run = 0; run < runs; ++run) {
    std::filesystem::path output = folder_.path() / std::to_string(run);
    bool has_checkpoint = false;
    for (int kills = 1 + static_cast<int>(random() % 2); kills > 0; --kills) {
      LoopProcess process(output, has_checkpoint);
      process.wait_until_ready();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 600'000));
      process.send(SIGKILL);
      process.wait();
      has_checkpoint = !train::checkpoint_steps(output.string()).empty();
    }
    resumed += has_checkpoint;
    finish(output.filename().string(), has_checkpoint);
    ASSERT_EQ(results_of(output), expected) << "run " << run;
    std::filesystem::remove_all(output);
  }
  std::printf("%d trainings killed, %d of them resumed from a checkpoint\n", runs, resumed);
}

TEST_F(Kills, ASignalSavesACheckpointAndSaysHowToResume) {
  auto expected = results_of(finish(kUndisturbed, false));
  for (auto [number, name] : {std::pair{SIGINT, "SIGINT"}, std::pair{SIGTERM, "SIGTERM"}}) {
    std::filesystem::path output = folder_.path() / name;
    {
      LoopProcess process(output, false, 20);
      process.wait_until_ready();
      std::this_thread::sleep_for(milliseconds(150));
      process.send(number);
      int status = process.wait();
      ASSERT_TRUE(WIFEXITED(status)) << process.errors();
      EXPECT_EQ(WEXITSTATUS(status), 128 + number);
      for (const char* part : {name, "; saved ", "checkpoint-", "resume_from_checkpoint"})
        EXPECT_NE(process.errors().find(part), std::string::npos) << process.errors();
    }
    ASSERT_FALSE(train::checkpoint_steps(output.string()).empty());
    finish(name, true);
    auto files = results_of(output);
    for (const auto& [file, text] : expected) EXPECT_EQ(files[file], text) << file;
  }
}

TEST_F(Kills, ASecondInterruptEndsAtOnce) {
  LoopProcess process(folder_.path() / "slow", false, 10'000);
  process.wait_until_ready();
  std::this_thread::sleep_for(milliseconds(200));
  auto start = std::chrono::steady_clock::now();
  process.send(SIGINT);
  std::this_thread::sleep_for(milliseconds(200));
  process.send(SIGINT);
  int status = process.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

}  // namespace
}  // namespace tenon::test
