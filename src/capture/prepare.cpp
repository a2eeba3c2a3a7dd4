#include "capture/prepare.h"

#include <pthread.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>

#include <atomic>

#include "base/process.h"
#include "capture/address_space.h"
#include "capture/backward.h"
#include "capture/listener.h"
#include "capture/pending.h"
#include "capture/withdrawn.h"
#include "ops/table.h"

namespace tenon::capture {
namespace {

std::atomic<bool> g_is_prepared{false};

// A lock that another thread holds during a fork would stay locked in the child. Most locks are ForkSafeLocks. The locks of the fault
// handler are taken here; threads in a NoForkScope may need them, so they come last.
void before_fork() {
  wait_for_no_fork_scopes();
  if (!g_is_prepared) return;
  lock_withdrawn();
  lock_addresses();
}

void after_fork() {
  if (g_is_prepared) {
    unlock_addresses();
    unlock_withdrawn();
  }
  end_of_fork();
}

void after_fork_in_child() {
  abandon_replays_of_other_threads();
  after_fork();
}

// Registered when the library is loaded: a fork may meet the first call.
[[maybe_unused]] const bool g_has_fork_handlers = pthread_atfork(&before_fork, &after_fork, &after_fork_in_child) == 0;

}  // namespace

void prepare_process() {
  if (g_is_prepared.load(std::memory_order_acquire)) return;
  NoForkScope scope;
  ListenScope registers_keys(nullptr);
  listen_to_backwards();
  addresses_are_available();
  ops::find("");
  torch::jit::setGraphExecutorOptimize(torch::jit::getGraphExecutorOptimize());
  g_is_prepared.store(true, std::memory_order_release);
}

}  // namespace tenon::capture
