#include "driver/recompile_limit.h"

#include <algorithm>
#include <map>

#include "base/warn.h"

namespace tenon::driver {
namespace {

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

void RecompileLimit::reached(const Options& options, const std::vector<Explanation::Recompile>& recompiles,
                             const Explanation::Recompile& last) {
  if (options.recompile_limit == 0 || has_warned_.exchange(true)) return;
  std::map<std::string, size_t> times;  // Number of failures per guard.
  for (const Explanation::Recompile& r : recompiles) ++times[r.guard];
  ++times[last.guard];
  auto most = std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string what = most->first == "replay" ? "The program differed from what was recorded" : "Guard '" + most->first + "' failed";
  auto newest = std::find_if(recompiles.rbegin(), recompiles.rend(), [&](const auto& r) { return r.guard == most->first; });
  const std::string& detail = last.guard == most->first || newest == recompiles.rend() ? last.detail : newest->detail;
  warn("'" + options.name + "' has reached its recompile_limit of " + std::to_string(options.recompile_limit) +
       " recordings; calls that fit none of them run eagerly from now on. " + what + " " + std::to_string(most->second) +
       " times, last: " + detail + ". " + advice(most->first, options.trust) + " tenon::explain lists all recompiles.");
}

}  // namespace tenon::driver
