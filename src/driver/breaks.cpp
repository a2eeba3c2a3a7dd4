#include "driver/breaks.h"

#include <algorithm>

#include "capture/source.h"

namespace tenon::driver {

void Breaks::note(const capture::BreakEvent& event) {
  constexpr size_t kMaxSites = 1000;  // Recursion can reach one line through any number of call stacks.
  auto key = std::pair{event.op, event.frames};
  if (sites_.size() >= kMaxSites && !sites_.count(key)) key.second.clear();
  auto [it, is_new] = sites_.try_emplace(std::move(key), Site{event.what, event.instead, 0, sites_.size()});
  ++it->second.count;
}

std::vector<Explanation::Break> Breaks::list() const {
  std::vector<const std::pair<const std::pair<std::string, std::vector<void*>>, Site>*> order;
  for (const auto& entry : sites_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->second.order < b->second.order; });
  std::vector<std::vector<void*>> stacks;
  for (const auto* entry : order) stacks.push_back(entry->first.second);
  std::vector<std::string> lines = capture::user_lines(stacks);
  std::vector<Explanation::Break> out;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& [key, site] = *order[i];
    auto known = std::find_if(out.begin(), out.end(), [&](const auto& b) { return b.op == key.first && b.where == lines[i]; });
    if (known != out.end()) known->count += site.count;
    else out.push_back({key.first, site.what, lines[i], site.instead, site.count});
  }
  return out;
}

}  // namespace tenon::driver
