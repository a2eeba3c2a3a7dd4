// Hostile conditions: threads, signals, exit order, forks, memory limits, system calls. Each case runs in a process of its
// own, because a failure may end the process. A case that passes returns normally; `expect` ends the process with a message.
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

// The expected end of a case.
struct Ending {
  int code = 0;              // The exit code.
  int signal = 0;            // The signal that ends the process, or 0.
  std::string message = "";  // Text that stderr must contain.
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

// Ends the process with a message and exit code 1 if the condition is false.
void expect(bool holds, const std::string& what);
// Ends the process and reports the case as skipped, because this machine cannot run it.
void skip(const std::string& reason);
// Expects equal sizes and values within 1e-5.
void expect_equal(const torch::Tensor& got, const torch::Tensor& eager, const std::string& what);

// How long a case with threads runs: the environment variable TENON_HOSTILE_SECONDS, or 1.5 s.
double seconds_to_run();

// Calls `step` until the time has passed, and at least eight times.
void run_for_a_while(const std::function<void(int)>& step);

}  // namespace tenon::test
