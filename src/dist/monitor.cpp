#include "dist/monitor.h"

#include <cxxabi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <string_view>
#include <thread>
#include <typeinfo>

#include "base/error.h"
#include "base/warn.h"
#include "dist/process_table.h"

namespace tenon::dist {
namespace {

using namespace std::chrono_literals;

// Exit code of a process whose peer has ended while it was blocked in a collective.
constexpr int kExitPeerLost = 75;
// Time that a blocked process gets to end by an exception.
constexpr auto kGrace = 1500ms;
constexpr auto kLongestWaitForVerdict = 2500ms;
// Time that a killed process may take until the process table shows its end.
constexpr auto kTimeToEnd = 1000ms;
// Heartbeats within which a published cause has reached all processes.
constexpr int kExchanges = 3;
// Time that a process has between SIGTERM and its end, to find out why.
constexpr auto kTimeToReport = 1000ms;

// Time that a process waits for its last heartbeat to be written and, if it serves the store, for the others to leave.
constexpr std::chrono::milliseconds kTimeToLeave{3000};

std::atomic<bool> g_terminated = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // Otherwise the handler could not use it.

void note_sigterm(int) { g_terminated = true; }

void handle_sigterm() {
  struct sigaction action {};
  sigaction(SIGTERM, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  action.sa_handler = note_sigterm;
  action.sa_flags = SA_RESTART | SA_RESETHAND;  // A second SIGTERM ends the process at once.
  sigaction(SIGTERM, &action, nullptr);
}

void restore_sigterm() {
  struct sigaction action {};
  sigaction(SIGTERM, nullptr, &action);
  if (action.sa_handler == note_sigterm) ::signal(SIGTERM, SIG_DFL);
}

std::mutex g_watching_mutex;
std::weak_ptr<Monitor> g_watching;
std::terminate_handler g_other_handler = nullptr;

// Gloo's threads throw if the data of another process has a size that was not expected, which nothing can catch. The process lives until
// the monitors have found out which ranks call different collectives.
void terminate_after_verdict() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type && std::string_view(type->name()).starts_with("N4gloo")) {
    std::shared_ptr<Monitor> monitor = [] {
      std::lock_guard lock(g_watching_mutex);
      return g_watching.lock();
    }();
    if (monitor) monitor->wait_for_verdict();
  }
  if (g_other_handler) g_other_handler();
  std::abort();
}

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string seconds_text(std::chrono::duration<double> time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", time.count());
  return text;
}

const char* const kFailureKey = "failure";

}  // namespace

std::string Monitor::Peer::name(int rank) const {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(pid) + " on " + host + ")";
}

Monitor::Monitor(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout_seconds, bool has_agent)
    : store_(std::move(store)), rank_(rank), has_agent_(has_agent), timeout_(timeout_seconds), peers_(static_cast<size_t>(size)) {
  // All ranks together read size² heartbeats in each interval.
  constexpr int kRanksPerInterval = 32;
  interval_ = 200ms * std::max(1, size / kRanksPerInterval);
  silence_ = 5 * interval_;
  std::vector<std::string> places;
  for (int r = 0; r < size; ++r) {
    keys_.push_back("beat/" + std::to_string(r));
    places.push_back("process/" + std::to_string(r));
  }
  store_->set(keys_[static_cast<size_t>(rank)], bytes_of("0 0 0"));
  store_->set(places[static_cast<size_t>(rank)],
              bytes_of(host_name() + " " + std::to_string(::getpid()) + " " + process_state(::getpid()).start_time + " " + place_id()));
  std::vector<std::vector<uint8_t>> found = store_->multiGet(places);
  store_->wait(keys_);
  for (size_t r = 0; r < peers_.size(); ++r) {
    std::istringstream text(text_of(found[r]));
    text >> peers_[r].host >> peers_[r].pid >> peers_[r].start_time >> peers_[r].place;
    peers_[r].changed = Clock::now();
  }
}

std::shared_ptr<Monitor> Monitor::start(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout_seconds, bool has_agent) {
  std::shared_ptr<Monitor> monitor(new Monitor(std::move(store), rank, size, timeout_seconds, has_agent));
  handle_sigterm();
  {
    std::lock_guard lock(g_watching_mutex);
    g_watching = monitor;
    if (std::get_terminate() != terminate_after_verdict) g_other_handler = std::set_terminate(terminate_after_verdict);
  }
  std::thread([monitor] {
    monitor->run();
    std::lock_guard lock(monitor->mutex_);
    monitor->has_stopped_ = true;
    monitor->changed_.notify_all();
  }).detach();
  return monitor;
}

void Monitor::leave() {
  restore_sigterm();
  std::unique_lock lock(mutex_);
  stops_ = true;
  changed_.notify_all();
  if (!is_cut_off()) changed_.wait_for(lock, kTimeToLeave, [&] { return has_stopped_; });
}

void Monitor::run() {
  try {
    while (!waits_for_end()) {
      exchange_beats();
      if (find_fault().empty()) continue;
      // A process that has just left is no fault.
      exchange_beats();
      if (std::string fault = find_fault(); !fault.empty()) publish(fault);
    }
    write_beat("left", /*leaves=*/true);
    if (rank_ == 0 && !has_agent_) wait_for_others();
  } catch (const std::exception&) {  // The store is gone, and with it the launcher or rank 0.
    {
      std::unique_lock lock(mutex_);
      bool has_store_left = !has_agent_ && peers_[0].has_left;
      std::string fault = has_store_left ? any_local_fault() : wait_for_local_fault(lock);
      if (fault.empty() && !has_store_left && !stops_)
        fault = "the store of the job does not answer: the process that serves it (torchrun, or rank 0) has ended";
      if (!fault.empty() && !stops_) set_verdict(fault);
    }
    while (!waits_for_end()) {
    }
  }
}

// Waits for the next heartbeat. Returns whether this process leaves.
bool Monitor::waits_for_end() {
  std::unique_lock lock(mutex_);
  end_if_blocked();
  end_if_terminated();
  return changed_.wait_for(lock, interval_, [&] { return stops_; });
}

// The others need the store until they have left too.
void Monitor::wait_for_others() {
  // A rank that has failed will never leave; the others only need to read the cause.
  bool has_verdict = [&] {
    std::lock_guard lock(mutex_);
    return !verdict_.empty();
  }();
  auto longest = has_verdict ? 2 * interval_ : kTimeToLeave;
  for (auto start = Clock::now(); Clock::now() - start < longest; std::this_thread::sleep_for(50ms)) {
    std::vector<std::vector<uint8_t>> found = store_->multiGet(keys_);
    if (std::all_of(found.begin(), found.end(), [](const auto& beat) { return text_of(beat).starts_with("left"); })) return;
  }
}

// A heartbeat: a word that changes, the number of collectives, whether this process leaves, and its last collective.
void Monitor::write_beat(const std::string& word, bool leaves) {
  std::string text = [&] {
    std::lock_guard lock(mutex_);
    return word + " " + std::to_string(collectives_) + (leaves ? " 1 " : " 0 ") +
           (last_collectives_.empty() ? "" : last_collectives_.back());
  }();
  store_->set(keys_[static_cast<size_t>(rank_)], bytes_of(text));
}

void Monitor::exchange_beats() {
  write_beat(std::to_string(++beats_), /*leaves=*/false);
  std::vector<std::vector<uint8_t>> found = store_->multiGet(keys_);
  std::string failure;
  if (store_->check({kFailureKey})) failure = text_of(store_->get(kFailureKey));

  std::lock_guard lock(mutex_);
  auto now = Clock::now();
  // If this process itself was stopped, nothing is known about the others.
  if (now - last_exchange_ > silence_)
    for (Peer& peer : peers_) peer.changed = now;
  last_exchange_ = now;
  for (size_t r = 0; r < peers_.size(); ++r) {
    std::string text = text_of(found[r]);
    if (text == peers_[r].beat) continue;
    std::istringstream words(text);
    std::string count;
    int left = 0;
    words >> count >> peers_[r].collectives >> left >> std::ws;
    std::getline(words, peers_[r].last_collective);
    peers_[r].has_left = left != 0;
    peers_[r].beat = text;
    peers_[r].changed = now;
  }
  if (!failure.empty()) set_verdict(failure);
}

// Tells the others. The first fault that anybody publishes is the cause of the later ones.
void Monitor::publish(const std::string& fault) {
  std::string first = text_of(store_->compareSet(kFailureKey, std::vector<uint8_t>(), bytes_of(fault)));
  std::lock_guard lock(mutex_);
  set_verdict(first.empty() ? fault : first);
}

// What is wrong with another process, or an empty text. The most certain signs come first.
std::string Monitor::find_fault() {
  std::lock_guard lock(mutex_);
  if (!verdict_.empty()) return "";
  if (std::string fault = any_local_fault(); !fault.empty()) return fault;
  auto now = Clock::now();
  for (int r = 0; r < size(); ++r)
    if (std::string fault = difference_of(r); !fault.empty()) return fault;
  for (int r = 0; r < size(); ++r)
    if (std::string fault = silence_of(r, now); !fault.empty()) return fault;
  if (!failed_) return "";
  for (int r = 0; r < size(); ++r)
    if (r != rank_ && peers_[static_cast<size_t>(r)].has_left)
      return peers_[static_cast<size_t>(r)].name(r) + " has left the job before the others";
  // Heartbeats that were written before the failure say nothing about it.
  if (now - *failed_ < kExchanges * interval_) return "";
  for (int r = 0; r < size(); ++r)
    if (std::string fault = lag_of(r); !fault.empty()) return fault;
  return "";
}

// What the process table of this host tells about a process, or an empty text.
std::string Monitor::local_fault_of(int rank) const {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  if (rank == rank_ || peer.has_left || !is_local(peer)) return "";
  ProcessState state = process_state(peer.pid);
  if (state.start_time != peer.start_time || state.state == 'Z' || state.state == 'X') return peer.name(rank) + " has ended";
  if (state.state != 'T' || !failed_) return "";
  ::kill(peer.pid, SIGKILL);
  return peer.name(rank) + " is stopped (SIGSTOP); it is killed now";
}

// As any_local_fault(), for a failure that probably has such a cause.
std::string Monitor::wait_for_local_fault(std::unique_lock<std::mutex>& lock) {
  auto start = Clock::now();
  std::string fault = any_local_fault();
  while (fault.empty() && verdict_.empty() && !stops_ && Clock::now() - start < kTimeToEnd) {
    changed_.wait_for(lock, 20ms);
    fault = any_local_fault();
  }
  return fault;
}

std::string Monitor::any_local_fault() const {
  for (int r = 0; r < size(); ++r)
    if (std::string fault = local_fault_of(r); !fault.empty()) return fault;
  return "";
}

// Kills a process of this host that hangs.
std::string Monitor::silence_of(int rank, Clock::time_point now) const {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  std::chrono::duration<double> silence = now - peer.changed;
  if (rank == rank_ || peer.has_left || silence < silence_ || (silence < timeout_ && !failed_)) return "";
  if (is_local(peer)) ::kill(peer.pid, SIGKILL);
  return peer.name(rank) + " has not answered for " + seconds_text(silence) + (is_local(peer) ? "; it is killed now" : "");
}

// Whether the other process calls other collectives. Gloo would wait forever, or add up what does not belong together.
std::string Monitor::difference_of(int rank) const {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  int64_t first = collectives_ - static_cast<int64_t>(last_collectives_.size()) + 1;
  if (rank == rank_ || peer.has_left || peer.collectives < first || peer.collectives > collectives_) return "";
  const std::string& mine = last_collectives_[static_cast<size_t>(peer.collectives - first)];
  if (mine == peer.last_collective) return "";
  auto called = [](int who, const std::string& what) { return "a " + what + " in rank " + std::to_string(who); };
  return peer.name(rank) + " runs another program than " + peers_[static_cast<size_t>(rank_)].name(rank_) + ": collective number " +
         std::to_string(peer.collectives) + " is " + called(rank, peer.last_collective) + " and " + called(rank_, mine) +
         ". All processes must call the same collectives in the same order";
}

std::string Monitor::lag_of(int rank) const {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  if (rank == rank_ || peer.collectives >= collectives_ || peer.changed < *failed_) return "";
  return peer.name(rank) + " has begun " + std::to_string(peer.collectives) + " collectives, this process " + std::to_string(collectives_) +
         ": it is slow or stuck between them, or runs another program. If it is slow, raise the timeout " +
         "(timeout_seconds, Trainer: ddp_timeout)";
}

void Monitor::set_verdict(const std::string& text) {
  if (!verdict_.empty()) return;
  verdict_ = text;
  verdict_time_ = Clock::now();
  if (!stops_) warn("rank " + std::to_string(rank_) + ": " + verdict_ + ".");
  changed_.notify_all();
}

// Ends this process if its main thread still waits for data that will not come.
void Monitor::end_if_blocked() {
  if (verdict_.empty() || !is_waiting_ || Clock::now() - verdict_time_ < kGrace) return;
  warn("rank " + std::to_string(rank_) + " ends, because it waits for that rank.");
  ::_exit(kExitPeerLost);
}

void Monitor::end_if_terminated() {
  if (!g_terminated) return;
  if (!terminated_) terminated_ = Clock::now();
  if (verdict_.empty() && Clock::now() - *terminated_ < kTimeToReport) return;
  ::signal(SIGTERM, SIG_DFL);
  ::kill(::getpid(), SIGTERM);
}

void Monitor::begin_collective(std::string what) {
  constexpr size_t kMostPending = 1024;  // More collectives than a process begins before the others have begun the first of them.
  std::lock_guard lock(mutex_);
  ++collectives_;
  last_collectives_.push_back(std::move(what));
  if (last_collectives_.size() > kMostPending) last_collectives_.pop_front();
  if (verdict_.empty()) return;
  throw UserError(ErrorCode::distributed, verdict_ + ". Restart the job; it continues from its last checkpoint.");
}

void Monitor::wait_for_verdict() {
  std::unique_lock lock(mutex_);
  failed_ = Clock::now();
  changed_.wait_for(lock, kLongestWaitForVerdict, [&] { return !verdict_.empty(); });
  changed_.wait_for(lock, kExchanges * interval_,
                    [&] { return stops_; });  // The others read it before they see that this process has ended.
}

void Monitor::report_failure(const std::string& error) {
  std::unique_lock lock(mutex_);
  is_waiting_ = false;
  failed_ = Clock::now();
  // The cause that another process has published comes first. The thread cannot read it, or tell if the process that serves the store is
  // stopped, while it waits for an answer.
  if (!is_cut_off()) changed_.wait_for(lock, kExchanges * interval_, [&] { return !verdict_.empty(); });
  if (std::string fault = is_cut_off() ? wait_for_local_fault(lock) : any_local_fault(); !fault.empty()) set_verdict(fault);
  if (is_cut_off())
    set_verdict("the store of the job has not answered for " + seconds_text(Clock::now() - last_exchange_) +
                ": the network of this process is interrupted, or the process that serves the store (torchrun, or rank 0) hangs");
  changed_.wait_for(lock, kLongestWaitForVerdict, [&] { return !verdict_.empty(); });
  std::string cause = verdict_.empty() ? "a connection to another process was lost: " + error.substr(0, error.find('\n')) : verdict_;
  throw UserError(ErrorCode::distributed, cause + ". Restart the job; it continues from its last checkpoint.");
}

}  // namespace tenon::dist
