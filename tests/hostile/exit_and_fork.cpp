// Calls during process exit, and in the children of a fork.
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "hostile/hostile.h"

namespace tenon::test {
namespace {

using torch::Tensor;

auto make() {
  return compile([](Tensor x) { return torch::relu(x * 2 + 1).sum(); });
}

void call_a_few_times(decltype(make())& function, int size) {
  torch::NoGradGuard off;
  for (int i = 0; i < 5; ++i) expect(function(torch::ones({size})).item<float>() == 3.0F * static_cast<float>(size), "a sum");
}

// Constructed before main, so it is destroyed after everything that main creates.
auto g_function = make();

struct CallsWhenDestroyed {
  decltype(make())& function;
  int size;
  ~CallsWhenDestroyed() { call_a_few_times(function, size); }
};

HOSTILE(static_destructor_calls) {
  static CallsWhenDestroyed last{g_function, 5};
  call_a_few_times(g_function, 5);
}

// The destructor makes the first call, so it compiles.
HOSTILE(static_destructor_compiles) { static CallsWhenDestroyed last{g_function, 6}; }

HOSTILE(exit_handler_calls) {
  call_a_few_times(g_function, 5);
  std::atexit([] {
    call_a_few_times(g_function, 5);
    call_a_few_times(g_function, 7);
  });
}

HOSTILE(exit_handler_registered_first) {
  std::atexit([] { call_a_few_times(g_function, 5); });
  call_a_few_times(g_function, 5);
}

HOSTILE(exit_inside_a_call) {
  int calls = 0;
  auto function = compile([&](Tensor x) {
    auto y = x * 2;
    if (++calls == 5) std::exit(0);
    return y + 1;
  });
  for (int i = 0; i < 9; ++i) function(torch::ones({4}));
  expect(false, "exit() returned");
}

HOSTILE(thread_local_function) {
  std::thread([] {
    thread_local auto function = make();
    call_a_few_times(function, 4);
  }).join();
  thread_local auto function = make();
  call_a_few_times(function, 4);
}

HOSTILE(thread_local_destructor_calls) {
  std::thread([] {
    thread_local CallsWhenDestroyed last{g_function, 5};
    call_a_few_times(last.function, 5);
  }).join();
}

HOSTILE(quick_exit) {
  call_a_few_times(g_function, 4);
  std::quick_exit(0);
}

// ---- forks ----

void expect_child(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed, status " + std::to_string(status));
}

// Runs `work` in a child process, which must exit with code 0.
void in_child(const std::function<void()>& work) {
  pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  expect_child(child);
}

void read_an_alias(int calls) {
  Tensor state = torch::zeros({16}), alias = state.detach();
  auto function = compile([&](Tensor x) {
    state.add_(x);
    return x + static_cast<double>(alias.const_data_ptr<float>()[0]);
  });
  torch::NoGradGuard off;
  for (int i = 1; i <= calls; ++i) expect(function(torch::ones({16}))[2].item<float>() == 1.0F + static_cast<float>(i), "a read by fault");
}

HOSTILE(fork_before_the_first_call) {
  in_child([] {
    call_a_few_times(g_function, 4);
    read_an_alias(6);
  });
  call_a_few_times(g_function, 4);
}

HOSTILE(fork_after_calls) {
  call_a_few_times(g_function, 4);
  read_an_alias(6);
  for (int i = 0; i < 3; ++i)
    in_child([] {
      call_a_few_times(g_function, 4);
      call_a_few_times(g_function, 9);
      read_an_alias(6);
    });
  read_an_alias(6);
}

// Other threads are inside compiled calls when the process forks `delay` after their start, which is while they record or compile if
// the delay is short; the child makes calls and exits.
void fork_beside_calls(std::chrono::milliseconds delay) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([&] {
      Tensor state = torch::zeros({4096});
      auto function = compile([&](Tensor x) {
        state.add_(x * 2);
        return state + 1;
      });
      torch::NoGradGuard off;
      while (!stop) {
        function(torch::ones({4096}));
        call_a_few_times(g_function, 4);
      }
    });
  std::this_thread::sleep_for(delay);
  for (int i = 0; i < 10; ++i)
    in_child([] {
      call_a_few_times(g_function, 4);
      read_an_alias(6);
    });
  stop = true;
  for (std::thread& other : others) other.join();
}

HOSTILE(fork_beside_calls_of_other_threads) { fork_beside_calls(std::chrono::milliseconds(50)); }
HOSTILE(fork_beside_first_calls_of_other_threads) {
  // libtorch initialises each op at its first use, and a fork beside that hangs without Tenon too.
  torch::NoGradGuard off;
  Tensor x = torch::ones({4}), state = torch::zeros({4});
  state.add_(x * 2);
  expect((torch::relu(x * 2 + 1).sum() + state.detach().const_data_ptr<float>()[0]).item<float>() > 0, "a sum");
  // Each in a process of its own, because only the first call of a process registers and initialises.
  for (int delay = 0; delay < 20; ++delay) in_child([&] { fork_beside_calls(std::chrono::milliseconds(delay)); });
}

// The child reads pending contents in the middle of the parent's call; the parent continues.
HOSTILE(fork_inside_a_call) {
  Tensor state = torch::zeros({64}), alias = state.detach();
  auto function = compile([&](Tensor x) {
    auto y = x * 2 + 1;
    state.add_(y);
    in_child([&] {
      double sum = 0;
      for (int i = 0; i < 64; ++i) sum += y.const_data_ptr<float>()[i];
      expect(sum == 3 * 64, "the child read something else");
      expect(alias.const_data_ptr<float>()[5] == state.const_data_ptr<float>()[5], "the child read an old state");
    });
    return y + 1;
  });
  torch::NoGradGuard off;
  for (int i = 0; i < 6; ++i) expect(function(torch::ones({64}))[1].item<float>() == 4, "the parent computed something else");
  expect(state[0].item<float>() == 18, "the parent's state");
}

}  // namespace
}  // namespace tenon::test
