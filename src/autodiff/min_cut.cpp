#include "autodiff/min_cut.h"

#include <algorithm>

namespace tenon::autodiff {

int32_t MinCut::add_vertex() {
  outgoing_.emplace_back();
  return static_cast<int32_t>(outgoing_.size() - 1);
}

void MinCut::add_edge(int32_t from, int32_t to, double capacity) {
  outgoing_[from].push_back(static_cast<int32_t>(edges_.size()));
  edges_.push_back({to, capacity});
  outgoing_[to].push_back(static_cast<int32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::find_levels(int32_t source, int32_t sink) {
  level_.assign(outgoing_.size(), -1);
  level_[source] = 0;
  std::vector<int32_t> queue = {source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (int32_t edge : outgoing_[queue[i]]) {
      int32_t to = edges_[edge].to;
      if (level_[to] >= 0 || edges_[edge].capacity <= kRounding) continue;
      level_[to] = level_[queue[i]] + 1;
      queue.push_back(to);
    }
  return level_[sink] >= 0;
}

// Pushes flow from the vertex along edges to the next level. Paths are as long as chains of ops, so the path is kept on a list rather
// than on the call stack.
double MinCut::push(int32_t source, int32_t sink, double limit) {
  std::vector<int32_t> path;
  int32_t vertex = source;
  while (vertex != sink) {
    bool advanced = false;
    for (; next_[vertex] < outgoing_[vertex].size(); ++next_[vertex]) {
      int32_t edge = outgoing_[vertex][next_[vertex]];
      if (edges_[edge].capacity <= kRounding || level_[edges_[edge].to] != level_[vertex] + 1) continue;
      path.push_back(edge);
      vertex = edges_[edge].to;
      advanced = true;
      break;
    }
    if (advanced) continue;
    if (path.empty()) return 0;
    level_[vertex] = -1;  // A dead end.
    vertex = edges_[path.back() ^ 1].to;
    path.pop_back();
    ++next_[vertex];
  }
  for (int32_t edge : path) limit = std::min(limit, edges_[edge].capacity);
  for (int32_t edge : path) {
    edges_[edge].capacity -= limit;
    edges_[edge ^ 1].capacity += limit;
  }
  return limit;
}

std::vector<bool> MinCut::sink_side(int32_t source, int32_t sink) {
  while (find_levels(source, sink)) {
    next_.assign(outgoing_.size(), 0);
    while (push(source, sink, kInfinite) > 0) {
    }
  }
  // The vertices from which the sink can still be reached.
  std::vector<bool> reaches(outgoing_.size(), false);
  reaches[sink] = true;
  std::vector<int32_t> queue = {sink};
  for (size_t i = 0; i < queue.size(); ++i)
    for (int32_t edge : outgoing_[queue[i]]) {
      int32_t from = edges_[edge].to;
      if (reaches[from] || edges_[edge ^ 1].capacity <= kRounding) continue;
      reaches[from] = true;
      queue.push_back(from);
    }
  return reaches;
}

}  // namespace tenon::autodiff
