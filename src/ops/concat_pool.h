// Ops whose elements are selected by position: `cat` and gradients of slices as concatenations, and 2-d pooling.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ir/graph/group.h"

namespace tenon::ops {

// A result that is a concatenation of segments along one dimension. The sizes along it are constants of the kernel, so they must be
// numbers.
struct Concatenation {
  struct ConcatSegment {
    ir::ValueId id = ir::kNoValue;  // kNoValue means zeros.
    int64_t end = 0;                // The segment begins at the end of the previous one.
  };
  size_t dim = 0;
  std::vector<ConcatSegment> segments;
  std::optional<ir::StridedOperand> strided;  // The only operand, if it lacks the dimension.
};
std::optional<Concatenation> concatenation_of(const ir::Graph& graph, const ir::Node& node);

// Pooling over windows of the last two dimensions: the maximum, optionally with its index, or the mean. The sizes and strides of these
// dimensions are constants of the kernel, so they must be numbers.
struct Pooling {
  ir::StridedOperand source;  // The last two strides lead from window to window.
  bool is_mean = false;
  bool counts_padding = false;
  std::optional<int64_t> divisor;
  struct Window {
    int64_t size = 1, stride = 1, padding = 0, dilation = 1;
    int64_t extent = 1, step = 0;  // Size and stride of the source dimension.
    int64_t count = 1;             // Number of windows.
    bool is_uneven = false;        // Window i begins at i * extent / count.
  };
  std::array<Window, 2> windows;
};
std::optional<Pooling> pooling_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace tenon::ops
