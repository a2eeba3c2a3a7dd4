// Signal handlers before and after the first call, blocked signals, small alternate stacks, real crashes.
#include <sys/mman.h>
#include <unistd.h>
#include <csignal>

#include "hostile/hostile.h"

namespace tenon::test {
namespace {

using torch::Tensor;

constexpr int kHandlerRan = 42;

void end_with_report(int, siginfo_t*, void*) { _exit(kHandlerRan); }

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = &end_with_report;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

// Reads pending results through const pointers.
Tensor read_inside(Tensor x) {
  auto y = x * 2;
  double sum = 0;
  for (int64_t i = 0; i < y.numel(); ++i) sum += y.const_data_ptr<float>()[i];
  return y + sum;
}

Tensor read_by_storage(Tensor x) {
  auto y = x * 2;
  const auto* begin = static_cast<const float*>(y.storage().data());
  return y + static_cast<double>(begin[y.numel() - 1]);
}

// Updates an argument in place and reads it through a const pointer.
Tensor read_argument(Tensor x) {
  x.add_(1);
  double first = x.const_data_ptr<float>()[0];
  return x * first;
}

template <class F>
void compare(
    F function, const std::function<void()>& between = [] {}) {
  auto fast = compile(function);
  torch::NoGradGuard off;
  for (int i = 0; i < 8; ++i) {
    if (i == 4) between();
    auto x = torch::randn({64});
    expect_equal(fast(x.clone()), function(x.clone()), "call " + std::to_string(i));
  }
}

void compare_all(const std::function<void()>& between = [] {}) {
  compare(&read_inside, between);
  compare(&read_by_storage, between);
  compare(&read_argument, between);
}

HOSTILE(handler_installed_before) {
  install_handler();
  compare_all();
}

HOSTILE(handler_installed_after) { compare_all(&install_handler); }

HOSTILE(default_handler_after) {
  compare_all([] { signal(SIGSEGV, SIG_DFL); });
}

HOSTILE(all_signals_blocked) {
  compare_all([] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
  });
}

// The stack is as small as the kernel allows, with a guard page below it.
HOSTILE(small_alternate_stack) {
  size_t size = std::max<size_t>(8192, static_cast<size_t>(sysconf(_SC_MINSIGSTKSZ)) + 4096);
  auto* memory = static_cast<char*>(mmap(nullptr, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(memory, 4096, PROT_NONE);
  stack_t stack{};
  stack.ss_sp = memory + 4096;
  stack.ss_size = size;
  expect(sigaltstack(&stack, nullptr) == 0, "sigaltstack");
  compare_all();
}

// An alias from before the call is a tensor object that the call has not seen, so its reads are page faults.
Tensor alias_of_state(const Tensor& state, const Tensor& alias, const Tensor& x) {
  state.add_(x);
  return x + static_cast<double>(alias.const_data_ptr<float>()[3]);
}

void read_by_alias(const std::function<void()>& between) {
  Tensor state = torch::zeros({64}), plain = torch::zeros({64});
  Tensor alias = state.detach(), plain_alias = plain.detach();
  auto fast = compile([&](Tensor x) { return alias_of_state(state, alias, x); });
  torch::NoGradGuard off;
  for (int i = 0; i < 8; ++i) {
    if (i == 4) between();
    auto x = torch::randn({64});
    expect_equal(fast(x), alias_of_state(plain, plain_alias, x), "call " + std::to_string(i));
  }
}

HOSTILE(alias_read_by_fault) {
  read_by_alias([] {});
}

HOSTILE(alias_read_by_fault_handler_after) { read_by_alias(&install_handler); }

HOSTILE(write_through_const_pointer) {
  auto body = [](Tensor x) {
    auto y = x * 2;
    const_cast<float*>(y.const_data_ptr<float>())[0] = 5;
    return y + 1;
  };
  compare(body);
}

HOSTILE(write_through_const_alias, Ending{.signal = SIGSEGV, .message = "tenon: the program wrote through a const pointer"}) {
  Tensor state = torch::zeros({64});
  Tensor alias = state.detach();
  auto fast = compile([&](Tensor x) {
    state.add_(x);
    const_cast<float*>(alias.const_data_ptr<float>())[0] = 5;
    return x + 1;
  });
  torch::NoGradGuard off;
  for (int i = 0; i < 6; ++i) fast(torch::ones({64}));
}

void crash() {
  volatile int* nowhere = nullptr;
  *nowhere = 1;
}

HOSTILE(crash_after_calls, Ending{.signal = SIGSEGV}) {
  compare_all();
  crash();
}

HOSTILE(crash_inside_call, Ending{.signal = SIGSEGV}) {
  int calls = 0;
  auto fast = compile([&](Tensor x) {
    auto y = x * 2;
    if (++calls > 4) crash();
    return y + 1;
  });
  for (int i = 0; i < 8; ++i) fast(torch::randn({4}));
}

HOSTILE(crash_reaches_handler_from_before, Ending{.code = kHandlerRan}) {
  install_handler();
  compare_all();
  crash();
}

HOSTILE(crash_reaches_handler_from_after, Ending{.code = kHandlerRan}) {
  compare_all(&install_handler);
  crash();
}

// A handler that is installed after ours and chains to ours.
struct sigaction g_before_chaining;
int g_chained = 0;

void pass_to_the_one_before(int number, siginfo_t* info, void* context) {
  if (++g_chained > 3) _exit(9);
  g_before_chaining.sa_sigaction(number, info, context);
}

HOSTILE(handlers_that_chain, Ending{.signal = SIGSEGV}) {
  read_by_alias([] {
    struct sigaction action {};
    action.sa_sigaction = &pass_to_the_one_before;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &g_before_chaining);
  });
  crash();
}

HOSTILE(sent_signal_ends_the_process, Ending{.signal = SIGSEGV}) {
  compare_all();
  kill(getpid(), SIGSEGV);
  sleep(1);
}

int g_traps = 0;

HOSTILE(breakpoint_signals_inside_calls) {
  signal(SIGTRAP, [](int) { ++g_traps; });
  compare([](Tensor x) {
    auto y = x * 2;
    raise(SIGTRAP);
    return y + static_cast<double>(y.const_data_ptr<float>()[0]);
  });
  expect(g_traps == 16, "a signal was lost");
}

}  // namespace
}  // namespace tenon::test
