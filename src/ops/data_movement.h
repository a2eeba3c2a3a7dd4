// Data movement: ops whose elements are elements of one operand at other indices (flip, roll, padding, resizing). Sizes and strides along
// the moved dimensions are constants of the kernel, so they must be numbers.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/group.h"

namespace tenon::ops {

struct DataMovement {
  enum class Kind : uint8_t {
    flip,
    roll,
    reflect,  // Elements outside the bounds are mirrored.
    clamp,    // Elements outside the bounds repeat the border.
    pad,      // Elements outside the bounds are the constant of argument 2.
    nearest,
    linear,  // Interpolates between two neighbours.
  };
  // A dimension along which elements move.
  struct MovedDim {
    size_t dim = 0;
    int64_t extent = 1, step = 0;  // Size and stride of the source dimension.
    int64_t shift = 0;             // Index of the source's first element in the result.
    double scale = 1;              // Factor from an index of the result to an index of the source.
    bool align_corners = false;    // The align_corners argument of linear resizing.
  };
  Kind kind = Kind::flip;
  ir::StridedOperand source;  // Strides are 0 along the moved dimensions.
  std::vector<MovedDim> moved_dims;
};
std::optional<DataMovement> data_movement_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace tenon::ops
