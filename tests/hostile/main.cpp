// Runs all cases, each in a process of its own, or one case: hostile [CASE].
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "hostile/hostile.h"

namespace tenon::test {

std::vector<HostileCase>& hostile_cases() {
  static auto* cases = new std::vector<HostileCase>;
  return *cases;
}

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "WRONG: %s\n", what.c_str());
  std::fflush(nullptr);
  _exit(1);
}

constexpr int kSkipped = 77;

void skip(const std::string& reason) {
  std::fprintf(stderr, "%s", reason.c_str());
  std::fflush(nullptr);
  _exit(kSkipped);
}

void expect_equal(const torch::Tensor& got, const torch::Tensor& eager, const std::string& what) {
  expect(got.sizes() == eager.sizes() && torch::allclose(got, eager, 1e-5, 1e-6, /*equal_nan=*/true), what);
}

double seconds_to_run() {
  const char* seconds = std::getenv("TENON_HOSTILE_SECONDS");
  return seconds ? std::atof(seconds) : 1.5;
}

void run_for_a_while(const std::function<void(int)>& step) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 8 || std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds_to_run(); ++i) step(i);
}

namespace {

// A case that hangs is killed after this time, in addition to twice its running time.
constexpr int kMaxSeconds = 60;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Describes how the end differs from the expected one; empty if it does not.
std::string fault_of(const Ending& wanted, int status, const std::string& said) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return "did not end";
  if (WIFSIGNALED(status) && WTERMSIG(status) != wanted.signal) return "ended by signal " + std::to_string(WTERMSIG(status)) + ": " + said;
  if (WIFEXITED(status) && wanted.signal) return "was to end by signal " + std::to_string(wanted.signal);
  if (WIFEXITED(status) && WEXITSTATUS(status) != wanted.code) return "exit code " + std::to_string(WEXITSTATUS(status)) + ": " + said;
  if (said.find(wanted.message) == std::string::npos) return "did not say \"" + wanted.message + "\" but: " + said;
  return "";
}

struct Verdict {
  bool skipped = false;
  std::string fault;  // The failure, or the reason why the case was skipped.
};

Verdict run_case(const HostileCase& item, const char* program, const std::string& log) {
  pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    if (!std::freopen(log.c_str(), "w", stderr)) _exit(127);
    alarm(static_cast<unsigned>(kMaxSeconds + 2 * seconds_to_run()));
    execl(program, program, item.name.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  kill(-child, SIGKILL);  // Children of the case, which would keep ctest waiting for the end of their output.
  std::string said = read_file(log);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) return {true, said};
  return {false, fault_of(item.ending, status, said)};
}

int run_all(const char* program) {
  char directory[] = "/tmp/tenon_hostile_XXXXXX";
  if (!mkdtemp(directory)) return 2;
  std::string log = std::string(directory) + "/stderr";
  int passed = 0, failed = 0, skipped = 0;
  for (const HostileCase& item : hostile_cases()) {
    Verdict verdict = run_case(item, program, log);
    ++(verdict.skipped ? skipped : verdict.fault.empty() ? passed : failed);
    std::cout << item.name << ": "
              << (verdict.skipped         ? "skipped, "
                  : verdict.fault.empty() ? "passed"
                                          : "FAILED, ")
              << verdict.fault << std::endl;
  }
  std::remove(log.c_str());
  rmdir(directory);
  std::cout << "hostile: " << passed << " passed, " << failed << " failed, " << skipped << " skipped\n";
  return failed > 0;
}

}  // namespace
}  // namespace tenon::test

int main(int argc, char** argv) {
  using namespace tenon::test;
  if (argc < 2) return run_all("/proc/self/exe");
  at::set_num_threads(1);
  torch::manual_seed(1);
  for (const HostileCase& item : hostile_cases())
    if (item.name == argv[1]) {
      item.run();
      return 0;
    }
  std::cerr << "no case of that name\n";
  return 2;
}
