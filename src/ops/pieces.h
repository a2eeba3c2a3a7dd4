// Ops whose elements come from one operand or another, by their position: `cat` and the like, and pooling.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ir/graph/group.h"

namespace tenon::ops {

// A result that is put together of pieces along one dimension.
struct Pieces {
  struct Piece {
    ir::ValueId id = ir::kNoValue;  // or none: zeros
    int64_t end = 0;                // and it begins where the one before ends
  };
  size_t dim = 0;
  std::vector<Piece> pieces;
  std::optional<ir::Placed> placed;  // the only operand, if it lacks the dimension
};
std::optional<Pieces> pieces_of(const ir::Graph& graph, const ir::Node& node);

// A result whose elements are the maximum, maybe with its place, or the mean of windows of the last two dimensions.
struct Pool {
  ir::Placed source;  // from window to window
  bool is_mean = false;
  bool counts_padding = false;
  std::optional<int64_t> divisor;
  struct Window {
    int64_t size = 1, stride = 1, padding = 0, dilation = 1;
    int64_t extent = 1, step = 0;  // of the source, and in memory
    int64_t count = 1;             // of windows
    bool is_uneven = false;        // window i begins at i * extent / count
  };
  std::array<Window, 2> windows;
};
std::optional<Pool> pool_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace tenon::ops
