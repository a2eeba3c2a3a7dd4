#include "driver/region.h"

#include <malloc.h>

#include <algorithm>

#include "base/counters.h"
#include "base/error.h"
#include "base/process.h"
#include "capture/dispatch_state.h"
#include "capture/listener.h"
#include "capture/source.h"
#include "driver/compile_notice.h"
#include "runtime/lease.h"
#include "tenon/control.h"

namespace tenon {
namespace {

// A program that no graph can serve, or whose calls differed from its last recording kMaxMismatches times, is recorded only on every
// kRetryEvery-th call. Recording costs about as much as an eager call; not measured further.
constexpr size_t kMaxMismatches = 8;
constexpr size_t kRetryEvery = 16;

template <class List, class T>
void add_once(List& list, const T& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace

Region::Region(Options options)
    : options_(std::move(options)),
      kind_(build::backend_kind(options_.backend)),
      checked_(options_),
      backwards_(std::make_shared<driver::Backwards>(options_)),
      internal_errors_(options_) {
  keep_library_loaded();
  if (!(options_.memory_budget >= 0 && options_.memory_budget <= 1))
    throw UserError(ErrorCode::config, "Options::memory_budget of '" + options_.name + "' is " + std::to_string(options_.memory_budget) +
                                           "; set a number from 0 to 1");
  counts_.name = options_.name;
  counts_.backend = options_.backend;
}

bool Region::runs_plainly() const {
  // A call inside the recording of another compiled function is part of that program.
  return kind_ == build::BackendKind::none || stance() == Stance::force_eager || capture::current_listener() || process_is_ending();
}

detail::GraphResult Region::run_graph(const detail::Leaves& in) {
  if (options_.trust == Trust::checked || runs_plainly()) return {};
  std::shared_ptr<const Variants> variants;
  {
    std::lock_guard lock(mutex_);
    variants = variants_;
  }
  for (const auto& variant : *variants) {
    if (!variant->guards.check(in, nullptr)) continue;
    std::shared_ptr<driver::Variant> ready = with_backward(variant);
    internal_errors_.raise();
    if (!ready->may_serve()) return {};
    detail::GraphResult answer = driver::run_variant(ready, in);
    if (!answer.prototype) return {};
    ++counters().calls, ++counters().served;
    return answer;
  }
  return {};
}

// Builds the joint graph of a variant whose backward has been recorded meanwhile.
std::shared_ptr<driver::Variant> Region::with_backward(const std::shared_ptr<driver::Variant>& variant) {
  driver::Recording& recording = *variant->recording;
  if (variant->joint || !recording.needs_grad()) return variant;
  std::lock_guard lock(mutex_);
  {
    std::lock_guard backward(recording.backward_mutex);
    if (!recording.backward || recording.backward_tried) return variant;
    recording.backward_tried = true;
  }
  std::vector<std::string> obstacles;
  auto better = make_variant(variant->recording, obstacles);
  obstacles.insert(obstacles.end(), recording.backward_obstacles.begin(), recording.backward_obstacles.end());
  for (const std::string& text : obstacles) add_once(counts_.obstacles, "in the backward: " + text);
  if (!better || !better->joint) return variant;
  publish(better, variant.get());
  return better;
}

// Returns null on an internal error; the program then runs without a graph.
std::shared_ptr<driver::Variant> Region::make_variant(const std::shared_ptr<driver::Recording>& recording,
                                                      std::vector<std::string>& obstacles) {
  driver::CompileNotice notice(options_, recording->tape().ops.size());
  try {
    return driver::make_variant(recording, options_, phases_, obstacles);
  } catch (const std::exception& error) {
    obstacles.push_back(internal_errors_.note(error));
    return nullptr;
  }
}

void Region::publish(std::shared_ptr<driver::Variant> variant, const driver::Variant* replaces) {
  auto next = std::make_shared<Variants>();
  if (replaces) {
    variant->served_calls += replaces->served_calls.load();
    variant->failed_comparisons += replaces->failed_comparisons.load();
  }
  next->push_back(variant);
  for (const auto& other : *variants_)
    if (other.get() != replaces) next->push_back(other);
  variants_ = std::move(next);
}

// Must be called before the run, which may change properties that guards compare.
Region::CallMatch Region::find_match(const detail::Leaves& in) const {
  CallMatch match;
  for (const auto& candidate : candidates_) {
    capture::GuardFailure failure;
    if (match.candidate) break;
    if (candidate->guards.check(in, &failure)) match.candidate = candidate;
    else if (candidate == candidates_.front() || (differs_in_sizes(failure) && !differs_in_sizes(match.failure))) match.failure = failure;
  }
  for (const auto& variant : *variants_)
    if (!match.variant && variant->guards.check(in, nullptr)) match.variant = variant;
  return match;
}

// Whether a call differs from a recording in the sizes of an argument. Such calls are served as under Trust::checked, which
// needs no recording for each size. A stance that forbids recordings does not start with one.
bool Region::differs_in_sizes(const capture::GuardFailure& failure) const {
  using capture::GuardKind;
  GuardKind kind = failure.kind;
  bool is_size = kind == GuardKind::sizes || kind == GuardKind::strides || kind == GuardKind::offset;
  bool is_argument = failure.subject.starts_with("argument ");
  return options_.dynamic != Dynamic::no && is_size && is_argument && (stance() == Stance::compile || checked_.has_streams());
}

void Region::check_specialised(const detail::Leaves& in) const {
  for (size_t argument : options_.specialise)
    if (argument >= in.tensors.size())
      throw UserError(ErrorCode::config, "Options::specialise of '" + options_.name + "' names argument " + std::to_string(argument) +
                                             ", but the call has " + std::to_string(in.tensors.size()) +
                                             " tensors. Tensors are counted from 0, also those inside of containers.");
}

void Region::run_checked(const detail::Leaves& in, const std::function<detail::RecordedResult()>& body) {
  uint64_t first_node = capture::nodes_made();
  checked_.call(in, body);
  capture::remember_nodes(backwards_, first_node, capture::nodes_made());
}

void Region::record(const detail::Leaves& given, const std::function<detail::RecordedResult()>& body) {
  check_specialised(given);
  if (runs_plainly()) {
    body();
    return;
  }
  if (options_.trust == Trust::checked) return run_checked(given, body);
  // These handles keep the arguments alive, since the program may move them away.
  std::vector<at::Tensor> handles;
  detail::Leaves in = given;
  handles.reserve(in.tensors.size());
  for (const at::Tensor*& tensor : in.tensors) tensor = &handles.emplace_back(*tensor);
  bool plain = false;
  CallMatch match;
  driver::KnownLeaves known;
  {
    std::unique_lock lock(mutex_);
    ++counts_.calls;
    match = find_match(in);
    if (match.candidate) {
      size_t tries = match.candidate->mismatches++;
      bool is_unstable = !match.candidate->obstacles.empty() || tries >= kMaxMismatches;
      plain = is_unstable && tries % kRetryEvery != 0 && !options_.fullgraph;
    }
    bool is_new = !match.candidate && !candidates_.empty();
    if (is_new && differs_in_sizes(match.failure)) {
      --counts_.calls;
      if (!checked_.has_streams())
        recompiles_.note(capture::guard_name(match.failure.kind), match.failure.subject, capture::return_addresses());
      lock.unlock();
      return run_checked(given, body);
    }
    if (is_new && stance() == Stance::fail_on_recompile)
      throw UserError(ErrorCode::recompile, "no graph matches this call, and fail_on_recompile forbids a new one: guard '" +
                                                std::string(capture::guard_name(match.failure.kind)) + "' failed on " +
                                                match.failure.subject);
    bool is_over = is_new && candidates_.size() >= options_.recompile_limit;
    if (is_over && stance() == Stance::compile)
      recompiles_.warn_of_limit(options_, capture::guard_name(match.failure.kind), match.failure.subject);
    std::string eager_reason = match.variant ? match.variant->eager_reason() : "";
    if (!eager_reason.empty()) add_once(counts_.obstacles, eager_reason);
    plain |= stance() == Stance::eager_on_recompile || is_over || !eager_reason.empty();
    if (plain) ++counts_.plain;
    known = known_leaves_;
  }
  ++counters().calls, ++(plain ? counters().plain : counters().recorded);
  if (plain) {
    body();
    return;
  }
  build::Phases spent;
  auto recording = spent.time(build::Phase::record, [&] { return driver::record_run(in, options_, known, body); });
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < spent.seconds.size(); ++i) phases_.seconds[i] += spent.seconds[i];
    known_leaves_ = std::move(known);
    ++counts_.recorded;
    counts_.program_ops = recording->tape().calls;
    learn(match, std::move(recording));
    malloc_trim(0);  // A recording holds all intermediate results. The allocator would not return their pages by itself.
  }
  internal_errors_.raise();
}

void Region::learn(const CallMatch& match, std::shared_ptr<driver::Recording> recording) {
  for (const capture::BreakEvent& event : recording->tape().breaks) breaks_.note(event);
  for (const std::string& text : recording->obstacles) add_once(counts_.obstacles, text);
  const std::shared_ptr<driver::Recording>& earlier = match.candidate;
  if (!earlier && !candidates_.empty())
    recompiles_.note(capture::guard_name(match.failure.kind), match.failure.subject, capture::return_addresses());
  if (earlier) {
    std::erase(candidates_, earlier);
    recording->kinds = earlier->kinds;
  }
  bool agrees = false;
  if (earlier && recording->obstacles.empty() && earlier->obstacles.empty()) {
    driver::HostSteps& steps = recording->host_steps;
    bool same_steps = driver::HostSteps::bind(earlier->host_steps, earlier->recorder, steps, recording->recorder, recording->forward.ops);
    std::string difference =
        capture::first_difference(earlier->tape(), earlier->forward, recording->tape(), recording->forward, steps.is_bound());
    if (difference.empty() && !same_steps) difference = "a watched optimizer made other steps";
    agrees = difference.empty();
    if (!agrees) {
      recording->mismatches = earlier->mismatches;
      recompiles_.note("replay", difference, capture::return_addresses());
    }
  } else if (earlier) {
    recording->mismatches = earlier->mismatches;
  }
  candidates_.insert(candidates_.begin(), recording);
  if (!recording->obstacles.empty() || !agrees || recording->new_leaves) return;

  std::vector<std::string> obstacles;
  {
    // The variant is built from the earlier run, if the backward of that run has been recorded.
    std::unique_lock<std::mutex> backward;
    if (earlier) backward = std::unique_lock(earlier->backward_mutex);
    bool earlier_has_backward = agrees && earlier->backward && !earlier->new_leaves;
    auto variant = make_variant(earlier_has_backward ? earlier : recording, obstacles);
    if (variant) publish(std::move(variant), match.variant.get());
  }
  for (const auto& r : {earlier, recording})
    if (r)
      for (const std::string& text : r->backward_obstacles) add_once(counts_.obstacles, "in the backward: " + text);
  for (const std::string& text : obstacles) {
    add_once(recording->obstacles, text);
    add_once(counts_.obstacles, text);
  }
}

void Region::reset() {
  checked_.reset();
  backwards_->reset();
  std::lock_guard lock(mutex_);
  variants_ = std::make_shared<Variants>();
  candidates_.clear();
  known_leaves_.clear();
  runtime::free_unleased();
}

Explanation explain(Region& region) { return region.explain(); }

namespace detail {

std::shared_ptr<Region> make_region(Options options) { return std::make_shared<Region>(std::move(options)); }
GraphResult run_graph(Region& region, const Leaves& in) { return region.run_graph(in); }
void record(Region& region, const Leaves& in, const std::function<RecordedResult()>& body) { region.record(in, body); }

}  // namespace detail
}  // namespace tenon
