// Minimum cut of a directed graph with capacities, by Dinic's algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::autodiff {

class MinCut {
 public:
  // An edge of this capacity is never cut.
  static constexpr double kInfinite = 1e18;

  int32_t add_vertex();
  void add_edge(int32_t from, int32_t to, double capacity);
  // Finds the cut between source and sink. Returns for each vertex whether it is on the sink's side; of several minimum cuts it is the
  // one with the fewest vertices there.
  std::vector<bool> sink_side(int32_t source, int32_t sink);

 private:
  struct Edge {
    int32_t to;
    double capacity;  // The remaining capacity.
  };
  // Smaller capacities are rounding errors. Times are in nanoseconds.
  static constexpr double kRounding = 1e-9;

  bool find_levels(int32_t source, int32_t sink);
  double push(int32_t source, int32_t sink, double limit);

  std::vector<Edge> edges_;  // Edge i and i ^ 1 are opposite to each other.
  std::vector<std::vector<int32_t>> outgoing_;
  std::vector<int32_t> level_;
  std::vector<size_t> next_;
};

}  // namespace tenon::autodiff
