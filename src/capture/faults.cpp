#include "capture/faults.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <csignal>

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/process.h"
#include "capture/address_space.h"

namespace tenon::capture {
namespace {

struct Request {
  Fault fault;
  bool served = false;
  std::atomic<int> done{0};
};

// The service thread reads requests from a pipe, because write() is async-signal-safe. The first fault starts it, and most
// processes have none: a single-threaded process keeps its allocator's fast path without locks.
struct Service {
  std::atomic<bool> runs{false};
  int to = -1, from = -1;
};

std::atomic<FaultServer> g_server{nullptr};
std::mutex g_mutex;  // Protects the start of the service and the installation of the handler.
Service g_service;
thread_local bool t_is_service = false;

// The handlers that ours replaced, oldest first. There are several if the program has replaced ours and it was reinstalled.
std::array<struct sigaction, 8> g_previous;
std::atomic<size_t> g_previous_count{0};
// The signal that this thread is passing on, and how many handlers it has passed. A handler that was installed after ours may
// chain to ours; the signal then goes to the next older handler.
thread_local const void* t_context = nullptr;
thread_local size_t t_chained = 0;

void futex(std::atomic<int>& word, int operation, int value) {
  static_assert(sizeof word == sizeof(int));
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

void run_service() {
  t_is_service = true;
  pthread_setname_np(pthread_self(), "tenon-faults");
  at::init_num_threads();
  Request* request = nullptr;
  while (true) {
    ssize_t got = read(g_service.from, &request, sizeof request);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof request) return;
    request->served = g_server.load()(request->fault);
    request->done.store(1);
    futex(request->done, FUTEX_WAKE, 1);
  }
}

// A fault comes from an instruction that accesses tensor memory, never from inside an allocator, so a thread may be created
// in the handler.
bool start_service() {
  if (g_service.runs.load(std::memory_order_acquire)) return true;
  std::lock_guard lock(g_mutex);
  if (g_service.runs.load()) return true;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  g_service.from = ends[0];
  g_service.to = ends[1];
  sigset_t all, before;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // The program's own threads handle its signals.
  try {
    std::thread(&run_service).detach();
    g_service.runs.store(true, std::memory_order_release);
  } catch (const std::system_error&) {
    close(ends[0]);
    close(ends[1]);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return g_service.runs.load();
}

bool serve(const Fault& fault) {
  FaultServer server = g_server.load();
  if (!server) return false;
  // The service thread serves its own faults. Without a thread or a pipe, faults are served on the faulting thread.
  if (t_is_service || !start_service()) return server(fault);
  Request request{fault};
  Request* pointer = &request;
  if (write(g_service.to, &pointer, sizeof pointer) != sizeof pointer) return false;
  while (!request.done.load()) futex(request.done, FUTEX_WAIT, 0);
  return request.served;
}

void report(const char* address, bool is_write) {
  char text[512];
  int size =
      std::snprintf(text, sizeof text,
                    "tenon: %s at %p, an address inside tensor memory that a compiled call had not computed yet. %s See \"Pointers\" in "
                    "docs/limits.md.\n",
                    is_write ? "the program wrote through a const pointer" : "the program read through a pointer that is no longer valid",
                    static_cast<const void*>(address),
                    is_write ? "Ask for a mutable pointer (mutable_data_ptr) instead." : "Ask the tensor for its pointer again.");
  if (size > 0) (void)!write(STDERR_FILENO, text, std::min(sizeof text, static_cast<size_t>(size)));
}

// Passes a foreign fault on to the handler that ours replaced.
void pass_on(int signal_id, siginfo_t* info, void* context) {
  t_chained = t_context == context ? t_chained + 1 : 0;
  t_context = context;
  size_t count = g_previous_count.load();
  bool is_default = t_chained >= count;
  if (!is_default) {
    const struct sigaction& before = g_previous[count - 1 - t_chained];
    if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(signal_id, info, context);
    else if (before.sa_handler == SIG_DFL) is_default = true;
    else if (before.sa_handler != SIG_IGN) before.sa_handler(signal_id);
  }
  t_context = nullptr;
  if (!is_default) return;
  signal(SIGSEGV, SIG_DFL);                  // The faulting instruction runs again and ends the process.
  if (info->si_code <= 0) raise(signal_id);  // A signal that was sent is not repeated by itself.
}

void on_signal(int signal_id, siginfo_t* info, void* context) {
  const char* address = static_cast<const char*>(info->si_addr);
  bool from_kernel = info->si_code > 0;
  if (from_kernel && is_reserved(address)) {
    int saved = errno;
    bool is_write = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
    bool served = serve({address, this_thread(), is_write});
    errno = saved;
    if (served) return;
    report(address, is_write);
  }
  pass_on(signal_id, info, context);
}

bool is_ours(const struct sigaction& action) { return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == &on_signal; }

void install_locked() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  size_t count = g_previous_count.load();
  if (is_ours(now) || count == g_previous.size()) return;
  g_previous[count] = now;
  g_previous_count.store(count + 1);
  struct sigaction action {};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, nullptr);
}

// The child of a fork has no service thread and no pipe of its own; its first fault creates them.
void restart_after_fork() {
  new (&g_mutex) std::mutex;
  g_service.runs.store(false);
}

[[maybe_unused]] const bool g_has_fork_handler = pthread_atfork(nullptr, nullptr, &restart_after_fork) == 0;

}  // namespace

pid_t this_thread() {
  thread_local const pid_t id = static_cast<pid_t>(syscall(SYS_gettid));
  return id;
}

void serve_faults(FaultServer server) {
  if (g_server.load(std::memory_order_acquire)) return;
  ForkSafeLock lock(g_mutex);
  install_locked();
  g_server.store(server);
}

void keep_fault_handler() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if (is_ours(now)) return;
  ForkSafeLock lock(g_mutex);
  install_locked();
}

}  // namespace tenon::capture
