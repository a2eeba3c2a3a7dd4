#include "train/signals.h"

#include <signal.h>

#include <atomic>
#include <iterator>
#include <mutex>

namespace tenon::train {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

std::atomic<int> g_received = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // Otherwise the handler could not use it.

void note_signal(int number) {
  int before = g_received.exchange(number);
  if (before == 0 || number != SIGINT) return;
  signal(number, SIG_DFL);
  raise(number);  // Delivered when the handler returns.
}

// The handlers that were installed before the first scope.
struct FormerHandlers {
  std::mutex mutex;
  int scopes = 0;
  struct sigaction actions[std::size(kSignals)];
};

FormerHandlers& former() {
  static FormerHandlers handlers;
  return handlers;
}

}  // namespace

SignalScope::SignalScope() {
  FormerHandlers& handlers = former();
  std::lock_guard lock(handlers.mutex);
  if (handlers.scopes++ > 0) return;
  g_received = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &handlers.actions[i]);
    if (handlers.actions[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(kSignals[i], &action, nullptr);
  }
}

SignalScope::~SignalScope() {
  FormerHandlers& handlers = former();
  std::lock_guard lock(handlers.mutex);
  if (--handlers.scopes > 0) return;
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &handlers.actions[i], nullptr);
}

int SignalScope::received() const { return g_received; }

}  // namespace tenon::train
