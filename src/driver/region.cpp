#include "driver/region.h"

#include <malloc.h>

#include <algorithm>

#include "base/error.h"
#include "base/process.h"
#include "capture/listener.h"
#include "driver/compile_notice.h"
#include "driver/stats.h"
#include "runtime/lease.h"
#include "tenon/control.h"

namespace tenon::detail {
namespace {

// A program that does not agree with its last recording, or that no graph can answer for, is
// recorded only this often.
constexpr size_t kPatience = 8;
constexpr size_t kRetryEvery = 16;
// A program that is recorded now and then for ever must not need more memory each time.
constexpr size_t kMaxRecompilesKept = 256;

template <class List, class T>
void add_once(List& list, const T& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace

Region::Region(Options options)
    : options_(std::move(options)), kind_(driver::backend_kind(options_.backend)), checked_(options_), internal_errors_(options_) {
  keep_library_loaded();
  counts_.name = options_.name;
  counts_.backend = options_.backend;
}

bool Region::runs_plainly() const {
  // Inside another function's recording this one is part of that program.
  return kind_ == driver::BackendKind::none || stance() == Stance::force_eager || capture::current_listener() || process_is_ending();
}

Answer Region::answer(const Leaves& in) {
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
    if (!ready->ready()) return {};
    detail::Answer answer = driver::run_variant(ready, in);
    ++driver::counters().calls, ++driver::counters().answered;
    return answer;
  }
  return {};
}

// A variant whose backward has been recorded meanwhile gets its joint graph.
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

// On a fault of ours the program runs without a graph.
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
  if (replaces) variant->answered += replaces->answered.load();
  next->push_back(variant);
  for (const auto& other : *variants_)
    if (other.get() != replaces) next->push_back(other);
  variants_ = std::move(next);
}

// Before a run, since it may change what guards look at.
Region::Past Region::look_back(const Leaves& in) const {
  Past past;
  for (const auto& candidate : candidates_)
    if (!past.candidate && candidate->guards.check(in, candidate == candidates_.front() ? &past.failure : nullptr))
      past.candidate = candidate;
  for (const auto& variant : *variants_)
    if (!past.variant && variant->guards.check(in, nullptr)) past.variant = variant;
  return past;
}

void Region::record(const Leaves& given, const std::function<Outcome()>& body) {
  if (runs_plainly()) {
    body();
    return;
  }
  if (options_.trust == Trust::checked) return checked_.call(given, body);
  // The program may move its arguments away; these handles stay.
  std::vector<at::Tensor> handles;
  Leaves in = given;
  handles.reserve(in.tensors.size());
  for (const at::Tensor*& tensor : in.tensors) tensor = &handles.emplace_back(*tensor);
  bool plain = false;
  Past past;
  driver::Known known;
  {
    std::lock_guard lock(mutex_);
    ++counts_.calls;
    past = look_back(in);
    if (past.candidate) {
      size_t tries = past.candidate->mismatches++;
      bool hopeless = !past.candidate->obstacles.empty() || tries >= kPatience;
      plain = hopeless && tries % kRetryEvery != 0 && !options_.fullgraph;
    }
    bool is_new = !past.candidate && !candidates_.empty();
    if (is_new && stance() == Stance::fail_on_recompile)
      throw UserError(ErrorCode::recompile, "no known graph fits this call, under fail_on_recompile: guard '" +
                                                std::string(capture::guard_name(past.failure.kind)) + "' on " + past.failure.subject);
    bool is_over = is_new && candidates_.size() >= options_.recompile_limit;
    if (is_over && stance() == Stance::compile)
      recompile_limit_.reached(options_, counts_.recompiles, {capture::guard_name(past.failure.kind), past.failure.subject});
    std::string left = past.variant ? past.variant->left_to_program() : "";
    if (!left.empty()) add_once(counts_.obstacles, left);
    plain |= stance() == Stance::eager_on_recompile || is_over || !left.empty();
    if (plain) ++counts_.plain;
    known = known_;
  }
  ++driver::counters().calls, ++(plain ? driver::counters().plain : driver::counters().recorded);
  if (plain) {
    body();
    return;
  }
  driver::Phases spent;
  auto recording = spent.time(driver::Phase::record, [&] { return driver::record_run(in, options_, known, body); });
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < spent.seconds.size(); ++i) phases_.seconds[i] += spent.seconds[i];
    known_ = std::move(known);
    ++counts_.recorded;
    counts_.program_ops = recording->tape().calls;
    learn(past, std::move(recording));
    malloc_trim(0);  // a recording holds all that the program computes; the allocator alone keeps such pages for ever
  }
  internal_errors_.raise();
}

void Region::learn(const Past& past, std::shared_ptr<driver::Recording> recording) {
  for (const capture::BreakEvent& event : recording->tape().breaks) breaks_.note(event);
  for (const std::string& text : recording->obstacles) add_once(counts_.obstacles, text);
  const std::shared_ptr<driver::Recording>& earlier = past.candidate;
  if (!earlier && !candidates_.empty()) counts_.recompiles.push_back({capture::guard_name(past.failure.kind), past.failure.subject});
  if (earlier) {
    std::erase(candidates_, earlier);
    recording->kinds = earlier->kinds;
  }
  bool agrees = false;
  if (earlier && recording->obstacles.empty() && earlier->obstacles.empty()) {
    std::string difference = capture::first_difference(earlier->tape(), earlier->forward, recording->tape(), recording->forward);
    agrees = difference.empty();
    if (!agrees) {
      recording->mismatches = earlier->mismatches;
      if (counts_.recompiles.size() < kMaxRecompilesKept) counts_.recompiles.push_back({"replay", difference});
    }
  } else if (earlier) {
    recording->mismatches = earlier->mismatches;
  }
  candidates_.insert(candidates_.begin(), recording);
  if (!recording->obstacles.empty() || !agrees || recording->new_leaves) return;

  std::vector<std::string> obstacles;
  {
    // The earlier run may have been differentiated already.
    std::unique_lock<std::mutex> backward;
    if (earlier) backward = std::unique_lock(earlier->backward_mutex);
    bool earlier_knows = agrees && earlier->backward && !earlier->new_leaves;
    auto variant = make_variant(earlier_knows ? earlier : recording, obstacles);
    if (variant) publish(std::move(variant), past.variant.get());
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
  std::lock_guard lock(mutex_);
  variants_ = std::make_shared<Variants>();
  candidates_.clear();
  known_.clear();
  runtime::free_unleased();
}

std::shared_ptr<Region> make_region(Options options) { return std::make_shared<Region>(std::move(options)); }
Answer answer(Region& region, const Leaves& in) { return region.answer(in); }
void record(Region& region, const Leaves& in, const std::function<Outcome()>& body) { region.record(in, body); }
Explanation explain(Region& region) { return region.explain(); }

}  // namespace tenon::detail
