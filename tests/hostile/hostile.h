// Hostile conditions: threads, signals, exit order, forks, memory limits, system calls. Each case is a process of
// its own, because what goes wrong here ends the process. A case returns normally if all is well; `expect` ends it
// with a message.
#pragma once

#include <tenon/compile.h>
#include <tenon/control.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tenon::test {

// How a case is to end.
struct Ending {
  int code = 0;              // the exit code
  int signal = 0;            // or the signal
  std::string message = "";  // text that stderr must contain
};

struct HostileCase {
  std::string name;
  void (*run)();
  Ending ending;
};

std::vector<HostileCase>& hostile_cases();

struct RegisterHostile {
  RegisterHostile(std::string name, void (*run)(), Ending ending = {}) { hostile_cases().push_back({std::move(name), run, ending}); }
};

// HOSTILE(name) { body }, or HOSTILE(name, Ending{...}) { body }.
#define HOSTILE(name, ...)                                                                              \
  static void name();                                                                                   \
  static const ::tenon::test::RegisterHostile register_##name(#name, &name __VA_OPT__(, ) __VA_ARGS__); \
  static void name()

// Ends the process with a message and exit code 1 if it does not hold.
void expect(bool holds, const std::string& what);
// Ends the process: this machine cannot run the case.
void skip(const std::string& reason);
// Equal values, to the last bit or nearly.
void expect_equal(const torch::Tensor& got, const torch::Tensor& eager, const std::string& what);

// How long a case with threads runs: the environment variable TENON_HOSTILE_SECONDS, or a moment.
double seconds_to_run();

// Calls `step` until the time is up, and at least a few times.
void run_for_a_while(const std::function<void(int)>& step);

}  // namespace tenon::test
