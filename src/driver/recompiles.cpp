#include "driver/recompiles.h"

#include <algorithm>
#include <map>

#include "base/warn.h"
#include "capture/source.h"

namespace tenon::driver {
namespace {

// Limit on stored reasons, for programs that keep being recorded. Bounds memory; not measured.
constexpr size_t kMaxRecompilesKept = 256;

// What the user can do about a guard that keeps failing.
std::string advice(const std::string& guard, Trust trust) {
  if (guard == "sizes" || guard == "strides" || guard == "offset")
    return "Pad arguments to a few sizes, or leave Options::dynamic at Dynamic::automatic, which serves new sizes without recording them, "
           "or raise Options::recompile_limit.";
  if (guard == "number" || guard == "text")
    return "Pass values that change from call to call as tensors, or raise Options::recompile_limit.";
  if (guard == "watched") return "Watch only what stays the same for many calls, or raise Options::recompile_limit.";
  if (guard == "replay" && trust == Trust::checked)
    return "Set Options::dynamic = Dynamic::yes if sizes or integers change, keep other changing scalars in tensors, or raise "
           "Options::recompile_limit.";
  return "Avoid this difference between calls, compile one function per kind of call, or raise Options::recompile_limit.";
}

}  // namespace

void Recompiles::note(const std::string& guard, const std::string& detail, std::vector<void*> frames) {
  if (entries_.size() < kMaxRecompilesKept) entries_.push_back({guard, detail, std::move(frames)});
}

void Recompiles::warn_of_limit(const Options& options, const std::string& guard, const std::string& detail) {
  if (options.recompile_limit == 0 || std::exchange(has_warned_, true)) return;
  std::map<std::string, size_t> times;  // Number of failures per guard.
  for (const Entry& entry : entries_) ++times[entry.guard];
  ++times[guard];
  auto most = std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string what = most->first == "replay" ? "The program differed from what was recorded" : "Guard '" + most->first + "' failed";
  auto newest = std::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& entry) { return entry.guard == most->first; });
  const std::string& last = guard == most->first || newest == entries_.rend() ? detail : newest->detail;
  warn("'" + options.name + "' has reached its recompile_limit of " + std::to_string(options.recompile_limit) +
       " recordings; calls that fit none of them run eagerly from now on. " + what + " " + std::to_string(most->second) +
       " times, last: " + last + ". " + advice(most->first, options.trust) + " tenon::explain lists all recompiles.");
}

std::vector<Explanation::Recompile> Recompiles::list() const {
  std::vector<std::vector<void*>> stacks;
  for (const Entry& entry : entries_) stacks.push_back(entry.frames);
  std::vector<std::string> lines = capture::user_lines(stacks);
  std::vector<Explanation::Recompile> out;
  for (size_t i = 0; i < entries_.size(); ++i) out.push_back({entries_[i].guard, entries_[i].detail, lines[i]});
  return out;
}

}  // namespace tenon::driver
