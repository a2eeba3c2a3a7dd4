#include "probe/report.h"

#include <algorithm>
#include <cstdio>

namespace tenon::probe {
namespace {

// Host time per op in eager mode and in checked replay, in seconds. Rounded; bench_replay compares the two.
constexpr double kEagerSecondsPerOp = 1.2e-6, kReplaySecondsPerOp = 0.4e-6;
// The fraction of the time inside ops that host time can be, and the largest speedup that is reported. Both keep the estimate plausible;
// not measured.
constexpr double kMaxHostFraction = 0.5, kMaxSpeedup = 20;
constexpr size_t kMaxOpsShown = 5;

template <class... T>
std::string line(const char* format, T... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

double percent(double seconds, double total) { return total > 0 ? 100 * seconds / total : 0; }

}  // namespace

RepeatedBlock repeated_block(const std::vector<uint32_t>& s) {
  RepeatedBlock best;
  for (size_t period = 1; period * 2 <= s.size(); ++period) {
    size_t same = 0;
    while (same + period < s.size() && s[s.size() - 1 - same] == s[s.size() - 1 - same - period]) ++same;
    size_t times = same / period + 1;
    if (times >= 2 && times * period > best.ops * best.times) best = {period, times};
    if (best.ops > 0 && best.ops * best.times * 2 > s.size()) break;  // The shortest block that covers most of the sequence.
  }
  return best;
}

std::string Report::text() const {
  std::string out = line("tenon probe: %zu ops called by the program, %zu below autograd; %.3f s of %.3f s in ops\n", calls, ops,
                         call_seconds, wall_seconds);
  auto of = [&](OpCategory category) {
    auto it = seconds.find(category);
    return it == seconds.end() ? 0.0 : it->second;
  };
  double kernels = of(OpCategory::library) + of(OpCategory::fusable) + of(OpCategory::view) + of(OpCategory::other);
  out += line("  where: products, convolutions, attention %.0f %%, fusible ops %.0f %%, other ops %.0f %%\n",
              percent(of(OpCategory::library), kernels), percent(of(OpCategory::fusable), kernels),
              percent(of(OpCategory::view) + of(OpCategory::other), kernels));
  std::vector<std::pair<std::string, std::pair<size_t, double>>> sorted(by_op.begin(), by_op.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  for (size_t i = 0; i < sorted.size() && i < kMaxOpsShown; ++i)
    out += line("    %-40s %8zu times %9.3f ms\n", sorted[i].first.c_str(), sorted[i].second.first, sorted[i].second.second * 1e3);
  double average = chains.count ? static_cast<double>(chains.ops) / static_cast<double>(chains.count) : 0;
  out += line("  chains that would fuse: %zu, of %.1f ops each, %.3f ms; as one kernel each about %.3f ms\n", chains.count, average,
              chains.seconds * 1e3, chains.longest_op_seconds * 1e3);
  size_t reads = 0;
  for (const auto& [where, read] : host_reads) reads += read.count;
  out += line("  host reads: %zu%s\n", reads, reads ? " (each splits the compiled code)" : "");
  for (const auto& [where, read] : host_reads) out += line("    %s at %s, %zu times\n", read.op.c_str(), where.c_str(), read.count);
  if (block.ops)
    out += line("  repeats: the last %zu ops are one block of %zu, %zu times\n", block.ops * block.times, block.ops, block.times);
  else out += "  repeats: no block of ops repeats; compiling pays when a function is called again and again\n";
  double host = static_cast<double>(ops) * (kEagerSecondsPerOp - kReplaySecondsPerOp);
  double saved = std::max(0.0, chains.seconds - chains.longest_op_seconds) + std::min(host, call_seconds * kMaxHostFraction);
  double left = std::max(wall_seconds - saved, wall_seconds / kMaxSpeedup);
  out +=
      line("  estimate: %.2f x, if the repeated part is compiled (%.1f ms of host time, %.1f ms of memory traffic saved)\n",
           wall_seconds / left, std::min(host, call_seconds * kMaxHostFraction) * 1e3, (chains.seconds - chains.longest_op_seconds) * 1e3);
  return out;
}

}  // namespace tenon::probe
