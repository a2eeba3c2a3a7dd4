// Ops whose elements are elements of one operand from other places: flip, roll, padding, resizing.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/group.h"

namespace tenon::ops {

struct Move {
  enum class Kind : uint8_t {
    flip,
    roll,
    reflect,  // beyond the border
    clamp,    // the border's own elements go on
    pad,      // a number beyond the border: argument 2
    nearest,
    linear,  // between two neighbours
  };
  // One dimension that does not stay as it is.
  struct Along {
    size_t dim = 0;
    int64_t extent = 1, step = 0;  // of the source, and in memory
    int64_t shift = 0;             // by which the source's first element lies further on
    double scale = 1;              // from a position to the source's
    bool by_corners = false;       // linear: the outermost elements stay the outermost
  };
  Kind kind = Kind::flip;
  ir::Placed source;  // but for these dimensions
  std::vector<Along> along;
};
std::optional<Move> move_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace tenon::ops
