// Watches the other processes of a job: a thread that publishes a heartbeat in the store and reads those of the others. Gloo's errors name
// an address at most; this says which rank has ended, is stopped, or runs another program.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tenon::dist {

// The thread shares the object, because it may wait for a store that no longer answers when the process wants to leave.
class Monitor {
 public:
  // The store must be a connection of its own. Returns when all processes have published where they run. A process that gives no sign
  // of life for `timeout_seconds` counts as hung; one on this host is killed then, because a launcher waits long for a stopped process.
  // Unless the program handles SIGTERM itself, a process that gets it first reports which other process has ended: torchrun sends it to
  // all processes once one has.
  static std::shared_ptr<Monitor> start(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout_seconds, bool has_agent);
  // Tells the others that this process has left, and stops watching. A process that serves the store waits for the others for a while.
  void leave();

  // Counts a collective, such as "sum of 20 Float". Throws UserError(distributed) if another process is known to have ended.
  void begin_collective(std::string what);
  // While this thread waits for a collective, the process ends if another one does and the wait goes on.
  void set_waiting(bool waits) { is_waiting_ = waits; }

  // Waits up to 2.5 s until the cause of a failure is known.
  void wait_for_verdict();
  // Throws UserError(distributed) for a collective that has failed with this error. Waits up to 2.5 s until it is known which rank is
  // the cause.
  [[noreturn]] void report_failure(const std::string& error);

 private:
  using Clock = std::chrono::steady_clock;

  struct Peer {
    std::string host;
    int pid = 0;
    std::string start_time;  // Distinguishes the process from a later one with the same pid.
    std::string place;       // Equal for processes that see each other in the process table.
    std::string beat;        // The last one that was read.
    Clock::time_point changed;
    int64_t collectives = 0;
    std::string last_collective;
    bool has_left = false;

    std::string name(int rank) const;
  };

  Monitor(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout_seconds, bool has_agent);
  void run();
  void wait_for_others();
  bool waits_for_end();
  void write_beat(const std::string& word, bool leaves);
  void exchange_beats();
  void publish(const std::string& fault);
  std::string find_fault();
  // Whether the thread waits for an answer of the store.
  bool is_cut_off() const { return Clock::now() - last_exchange_ > silence_; }
  int size() const { return static_cast<int>(peers_.size()); }
  bool is_local(const Peer& peer) const { return peer.place == peers_[static_cast<size_t>(rank_)].place; }
  std::string local_fault_of(int rank) const;
  std::string any_local_fault() const;
  std::string wait_for_local_fault(std::unique_lock<std::mutex>& lock);
  std::string silence_of(int rank, Clock::time_point now) const;
  std::string lag_of(int rank) const;
  std::string difference_of(int rank) const;
  void set_verdict(const std::string& text);
  void end_if_blocked();
  void end_if_terminated();

  c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const bool has_agent_;  // The launcher serves the store.
  const std::chrono::duration<double> timeout_;
  std::chrono::milliseconds interval_;
  // A rank without a heartbeat for this time is the probable cause of a collective that has failed.
  std::chrono::milliseconds silence_;
  std::vector<std::string> keys_;
  int64_t beats_ = 0;

  std::mutex mutex_;  // Protects what follows.
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  Clock::time_point last_exchange_ = Clock::now();
  std::string verdict_;  // The fault of another process; empty if none is known.
  Clock::time_point verdict_time_;
  std::optional<Clock::time_point> failed_;      // The time at which a collective failed here.
  std::optional<Clock::time_point> terminated_;  // The time at which SIGTERM was noticed.
  bool stops_ = false, has_stopped_ = false;
  int64_t collectives_ = 0;
  std::deque<std::string> last_collectives_;  // The last of them is the one with the number `collectives_`.

  std::atomic<bool> is_waiting_ = false;
};

}  // namespace tenon::dist
