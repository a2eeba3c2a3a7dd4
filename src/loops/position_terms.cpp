// Terms of ops whose source index depends on the element's position: concatenation, pooling, data movement.
#include <algorithm>
#include <limits>

#include "loops/space.h"
#include "loops/terms.h"

namespace tenon::loops {

using ir::DType;
using ir::ValueId;
namespace loop = ir::loop;

TermId Terms::position(size_t dim) {
  if (group_.sizes[dim] == 1) return integer(0);
  if (std::find(positions_.begin(), positions_.end(), dim) == positions_.end()) positions_.push_back(dim);
  return add({Term::Kind::position, DType::i64, static_cast<int32_t>(dim), -1, 0, {}});
}

TermId Terms::both(TermId a, TermId b) { return compute(loop::Op::bit_and, DType::boolean, {a, b}); }

TermId Terms::i64_op(loop::Op op, TermId a, TermId b) { return compute(op, DType::i64, {a, b}); }

TermId Terms::is_between(TermId term, int64_t begin, int64_t end) {
  return both(i64_op(loop::Op::ge, term, integer(begin)), i64_op(loop::Op::lt, term, integer(end)));
}

// Computes floor(factor * position).
TermId Terms::scaled_down(TermId position, double factor) {
  TermId product = compute(loop::Op::mul, DType::f64, {cast(position, DType::i64, DType::f64), constant(factor, DType::f64)});
  return cast(compute(loop::Op::floor, DType::f64, {product}), DType::f64, DType::i64);
}

// The position of an element selects the operand that it is loaded from.
void Terms::add_concatenation(const ir::Node& node, const ops::Concatenation& concat) {
  ValueId result = ops::results_of(node)[0];
  DType dtype = graph_.values[result].type.dtype, wide = ops::register_type(dtype);
  std::vector<TermId> values;
  for (size_t i = 0; i < concat.segments.size(); ++i) {
    const auto& [id, end] = concat.segments[i];
    if (id == ir::kNoValue) {
      values.push_back(constant(int64_t{0}, wide));
      continue;
    }
    SegmentRange segment{concat.dim, i == 0 ? 0 : concat.segments[i - 1].end, end};
    auto known = std::find(segments_.begin(), segments_.end(), segment);
    segment_ = static_cast<int32_t>(known - segments_.begin());
    if (known == segments_.end()) segments_.push_back(segment);
    values.push_back(cast(element(id, dtype), dtype, wide));
    segment_ = kNoSegment;
  }
  TermId out = values.back();
  for (size_t i = values.size() - 1; i-- > 0;) {
    TermId before = i64_op(loop::Op::lt, position(concat.dim), integer(concat.segments[i].end));
    out = compute(loop::Op::select, wide, {before, values[i], out});
  }
  known_[{result, dtype, kNoSegment}] = cast(out, wide, dtype);
}

// Returns the source index at which a window begins; it is negative inside the padding.
TermId Terms::window_begin(const ops::Pooling& pooling, size_t w) {
  const auto& window = pooling.windows[w];
  TermId window_index = position(group_.sizes.size() - 2 + w);
  if (window.is_uneven) {
    TermId product = i64_op(loop::Op::mul, window_index, integer(window.extent));
    TermId quotient = compute(loop::Op::div, DType::f64, {cast(product, DType::i64, DType::f64), constant(window.count, DType::f64)});
    return cast(compute(loop::Op::floor, DType::f64, {quotient}), DType::f64, DType::i64);
  }
  return i64_op(loop::Op::sub, i64_op(loop::Op::mul, window_index, integer(window.stride)), integer(window.padding));
}

// Loads one element of a window.
Terms::WindowElement Terms::window_element(const ops::Pooling& pooling, int64_t row, int64_t column) {
  AddressingMode addressing;
  WindowElement out;
  TermId index = kNoTerm;
  for (size_t w = 0; w < 2; ++w) {
    const auto& window = pooling.windows[w];
    int64_t from = (w == 0 ? row : column) * window.dilation;
    TermId begin = window_begin(pooling, w), at = i64_op(loop::Op::add, begin, integer(from)), is_inside = kNoTerm;
    if (window.is_uneven) {
      addressing.offset += from * window.step;
      TermId first = i64_op(loop::Op::mul, begin, integer(window.step));
      index = index == kNoTerm ? first : i64_op(loop::Op::add, index, first);
      // The end is compared without dividing, since it may not be an integer.
      TermId end = i64_op(loop::Op::mul, i64_op(loop::Op::add, position(group_.sizes.size() - 2 + w), integer(1)), integer(window.extent));
      if (from > 0) is_inside = i64_op(loop::Op::lt, i64_op(loop::Op::mul, at, integer(window.count)), end);
    } else {
      int64_t first = from - window.padding, last = first + (window.count - 1) * window.stride;
      addressing.offset += first * window.step;
      if (first < 0 || last >= window.extent) is_inside = is_between(at, 0, window.extent);
    }
    out.flat_index = w == 0 ? i64_op(loop::Op::mul, at, integer(pooling.windows[1].extent)) : i64_op(loop::Op::add, out.flat_index, at);
    if (is_inside != kNoTerm) out.is_inside = out.is_inside == kNoTerm ? is_inside : both(out.is_inside, is_inside);
  }
  std::vector<TermId> operands;
  addressing.has_mask = out.is_inside != kNoTerm;
  if (addressing.has_mask) operands.push_back(out.is_inside);
  if (index != kNoTerm) {
    addressing.index_stride = 1;
    operands.push_back(index);
  }
  DType dtype = graph_.values[pooling.source.id].type.dtype;
  out.value = cast(load(pooling.source.id, addressing, std::move(operands)), dtype, ops::register_type(dtype));
  return out;
}

void Terms::add_pooling(const ir::Node& node, const ops::Pooling& pooling) {
  std::vector<ValueId> results = ops::results_of(node);
  DType dtype = graph_.values[results[0]].type.dtype, wide = ops::register_type(dtype);
  if (pooling.is_mean) {
    known_[{results[0], dtype, kNoSegment}] = cast(window_mean(pooling, wide), wide, dtype);
    return;
  }
  // The first of equal elements is kept, and a NaN wins, as in ATen.
  TermId none = constant(-std::numeric_limits<double>::infinity(), wide), out = none, flat_index = kNoTerm;
  for (size_t w = 0; w < 2; ++w) {
    TermId begin = i64_op(loop::Op::max, window_begin(pooling, w), integer(0));
    flat_index = w == 0 ? i64_op(loop::Op::mul, begin, integer(pooling.windows[1].extent)) : i64_op(loop::Op::add, flat_index, begin);
  }
  for (int64_t row = 0; row < pooling.windows[0].size; ++row)
    for (int64_t column = 0; column < pooling.windows[1].size; ++column) {
      WindowElement at = window_element(pooling, row, column);
      TermId value = at.is_inside == kNoTerm ? at.value : compute(loop::Op::select, wide, {at.is_inside, at.value, none});
      TermId is_larger = compute(loop::Op::gt, wide, {value, out}), is_nan = compute(loop::Op::ne, wide, {value, value});
      TermId wins = compute(loop::Op::bit_or, DType::boolean, {is_larger, is_nan});
      out = compute(loop::Op::select, wide, {wins, value, out});
      flat_index = compute(loop::Op::select, DType::i64, {wins, at.flat_index, flat_index});
    }
  known_[{results[0], dtype, kNoSegment}] = cast(out, wide, dtype);
  if (results[1] != ir::kNoValue) known_[{results[1], DType::i64, kNoSegment}] = flat_index;
}

TermId Terms::window_mean(const ops::Pooling& pooling, DType wide) {
  TermId sum = constant(int64_t{0}, wide), count = sum;
  for (int64_t row = 0; row < pooling.windows[0].size; ++row)
    for (int64_t column = 0; column < pooling.windows[1].size; ++column) {
      WindowElement at = window_element(pooling, row, column);
      TermId one = constant(int64_t{1}, wide);
      if (at.is_inside != kNoTerm && !pooling.counts_padding)
        one = compute(loop::Op::select, wide, {at.is_inside, one, constant(int64_t{0}, wide)});
      sum = compute(loop::Op::add, wide, {sum, at.value});
      count = compute(loop::Op::add, wide, {count, one});
    }
  if (pooling.divisor) count = constant(*pooling.divisor, wide);
  return compute(loop::Op::div, wide, {sum, count});
}

// Returns the source index of an element along one moved dimension.
TermId Terms::source_index(const ops::DataMovement& movement, const ops::DataMovement::MovedDim& moved_dim) {
  using Kind = ops::DataMovement::Kind;
  TermId at = position(moved_dim.dim), last = integer(moved_dim.extent - 1), shifted = i64_op(loop::Op::sub, at, integer(moved_dim.shift));
  auto distance = [&](TermId a) { return compute(loop::Op::abs, DType::i64, {a}); };
  switch (movement.kind) {
    case Kind::flip:
      return i64_op(loop::Op::sub, last, at);
    case Kind::roll:
      return compute(loop::Op::select, DType::i64,
                     {i64_op(loop::Op::lt, shifted, integer(0)), i64_op(loop::Op::add, shifted, integer(moved_dim.extent)), shifted});
    case Kind::reflect:
      return i64_op(loop::Op::sub, last, distance(i64_op(loop::Op::sub, last, distance(shifted))));
    case Kind::clamp:
      return i64_op(loop::Op::min, i64_op(loop::Op::max, shifted, integer(0)), last);
    case Kind::nearest:
      return i64_op(loop::Op::min, scaled_down(at, moved_dim.scale), last);
    default:
      return shifted;
  }
}

TermId Terms::load_moved(const ops::DataMovement& movement, const std::vector<TermId>& indices) {
  TermId index = integer(0), is_inside = kNoTerm;
  for (size_t i = 0; i < indices.size(); ++i) {
    index = i64_op(loop::Op::add, index, i64_op(loop::Op::mul, indices[i], integer(movement.moved_dims[i].step)));
    if (movement.kind != ops::DataMovement::Kind::pad) continue;
    TermId here = is_between(indices[i], 0, movement.moved_dims[i].extent);
    is_inside = is_inside == kNoTerm ? here : both(is_inside, here);
  }
  std::vector<TermId> operands;
  if (is_inside != kNoTerm) operands.push_back(is_inside);
  operands.push_back(index);
  DType dtype = graph_.values[movement.source.id].type.dtype, wide = ops::register_type(dtype);
  TermId value = cast(load(movement.source.id, {0, is_inside != kNoTerm, 1}, std::move(operands)), dtype, wide);
  if (is_inside == kNoTerm) return value;
  TermId beyond = cast(cast(argument(2, wide), wide, dtype), dtype, wide);
  return compute(loop::Op::select, wide, {is_inside, value, beyond});
}

// Returns the two neighbours along a dimension and the weight of the second one.
Terms::Neighbours Terms::neighbours(const ops::DataMovement::MovedDim& moved_dim, DType wide) {
  TermId at = position(moved_dim.dim), zero = constant(int64_t{0}, wide), one = constant(int64_t{1}, wide), half = constant(0.5, wide);
  if (group_.sizes[moved_dim.dim] == moved_dim.extent) return {at, at, zero};  // An infinite element becomes NaN, as in ATen.
  TermId where = cast(at, DType::i64, wide), last = integer(moved_dim.extent - 1);
  if (moved_dim.align_corners) {
    where = compute(loop::Op::mul, wide, {where, constant(moved_dim.scale, wide)});
  } else {
    // The fma rounds once, as in libtorch's build: the rounding decides whether a neighbour has any weight.
    TermId centre = compute(loop::Op::add, wide, {where, half});
    where =
        compute(loop::Op::max, wide, {compute(loop::Op::fma, wide, {centre, constant(moved_dim.scale, wide), constant(-0.5, wide)}), zero});
  }
  TermId first = i64_op(loop::Op::min, cast(compute(loop::Op::floor, wide, {where}), wide, DType::i64), last);
  TermId weight = compute(loop::Op::sub, wide, {where, cast(first, DType::i64, wide)});
  weight = compute(loop::Op::min, wide, {compute(loop::Op::max, wide, {weight, zero}), one});
  return {first, i64_op(loop::Op::min, i64_op(loop::Op::add, first, integer(1)), last), weight};
}

// Interpolates between the neighbours along the remaining dimensions.
TermId Terms::interpolate(const ops::DataMovement& movement, std::vector<TermId> indices, DType wide) {
  if (indices.size() == movement.moved_dims.size()) return load_moved(movement, indices);
  Neighbours two = neighbours(movement.moved_dims[indices.size()], wide);
  indices.push_back(two.first);
  TermId before = interpolate(movement, indices, wide);
  indices.back() = two.second;
  TermId after = interpolate(movement, indices, wide), rest = compute(loop::Op::sub, wide, {constant(int64_t{1}, wide), two.weight});
  return compute(loop::Op::add, wide, {compute(loop::Op::mul, wide, {rest, before}), compute(loop::Op::mul, wide, {two.weight, after})});
}

void Terms::add_data_movement(const ir::Node& node, const ops::DataMovement& movement) {
  node_ = &node;
  ValueId result = ops::results_of(node)[0];
  DType dtype = graph_.values[result].type.dtype, wide = ops::register_type(dtype);
  std::vector<TermId> indices;
  bool is_linear = movement.kind == ops::DataMovement::Kind::linear;
  if (!is_linear)
    for (const ops::DataMovement::MovedDim& moved_dim : movement.moved_dims) indices.push_back(source_index(movement, moved_dim));
  known_[{result, dtype, kNoSegment}] = cast(is_linear ? interpolate(movement, {}, wide) : load_moved(movement, indices), wide, dtype);
}

}  // namespace tenon::loops
