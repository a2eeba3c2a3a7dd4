// Terms of ops that take an element from a place that its position says.
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

TermId Terms::whole(loop::Op op, TermId a, TermId b) { return compute(op, DType::i64, {a, b}); }

TermId Terms::is_between(TermId term, int64_t begin, int64_t end) {
  return both(whole(loop::Op::ge, term, integer(begin)), whole(loop::Op::lt, term, integer(end)));
}

// floor(factor * position).
TermId Terms::scaled_down(TermId position, double factor) {
  TermId product = compute(loop::Op::mul, DType::f64, {cast(position, DType::i64, DType::f64), constant(factor, DType::f64)});
  return cast(compute(loop::Op::floor, DType::f64, {product}), DType::f64, DType::i64);
}

// Which operand an element comes from, its position says.
void Terms::add_pieces(const ir::Node& node, const ops::Pieces& pieces) {
  ValueId result = ops::results_of(node)[0];
  DType dtype = graph_.values[result].type.dtype, wide = ops::register_type(dtype);
  std::vector<TermId> values;
  for (size_t i = 0; i < pieces.pieces.size(); ++i) {
    const auto& [id, end] = pieces.pieces[i];
    if (id == ir::kNoValue) {
      values.push_back(constant(int64_t{0}, wide));
      continue;
    }
    Part part{pieces.dim, i == 0 ? 0 : pieces.pieces[i - 1].end, end};
    auto known = std::find(parts_.begin(), parts_.end(), part);
    part_ = static_cast<int32_t>(known - parts_.begin());
    if (known == parts_.end()) parts_.push_back(part);
    values.push_back(cast(element(id, dtype), dtype, wide));
    part_ = kWhole;
  }
  TermId out = values.back();
  for (size_t i = values.size() - 1; i-- > 0;) {
    TermId before = whole(loop::Op::lt, position(pieces.dim), integer(pieces.pieces[i].end));
    out = compute(loop::Op::select, wide, {before, values[i], out});
  }
  known_[{result, dtype, kWhole}] = cast(out, wide, dtype);
}

// Where a window begins in the source, which may be before it.
TermId Terms::window_begin(const ops::Pool& pool, size_t w) {
  const auto& window = pool.windows[w];
  TermId number = position(group_.sizes.size() - 2 + w);
  if (window.is_uneven) {
    TermId product = whole(loop::Op::mul, number, integer(window.extent));
    TermId quotient = compute(loop::Op::div, DType::f64, {cast(product, DType::i64, DType::f64), constant(window.count, DType::f64)});
    return cast(compute(loop::Op::floor, DType::f64, {quotient}), DType::f64, DType::i64);
  }
  return whole(loop::Op::sub, whole(loop::Op::mul, number, integer(window.stride)), integer(window.padding));
}

// One element of every window.
Terms::WindowElement Terms::window_element(const ops::Pool& pool, int64_t row, int64_t column) {
  Access access;
  WindowElement out;
  TermId index = kWhole;
  for (size_t w = 0; w < 2; ++w) {
    const auto& window = pool.windows[w];
    int64_t from = (w == 0 ? row : column) * window.dilation;
    TermId begin = window_begin(pool, w), at = whole(loop::Op::add, begin, integer(from)), is_inside = kWhole;
    if (window.is_uneven) {
      access.offset += from * window.step;
      TermId along = whole(loop::Op::mul, begin, integer(window.step));
      index = index == kWhole ? along : whole(loop::Op::add, index, along);
      // An end that is no integer lies behind the elements before it.
      TermId end = whole(loop::Op::mul, whole(loop::Op::add, position(group_.sizes.size() - 2 + w), integer(1)), integer(window.extent));
      if (from > 0) is_inside = whole(loop::Op::lt, whole(loop::Op::mul, at, integer(window.count)), end);
    } else {
      int64_t first = from - window.padding, last = first + (window.count - 1) * window.stride;
      access.offset += first * window.step;
      if (first < 0 || last >= window.extent) is_inside = is_between(at, 0, window.extent);
    }
    out.place = w == 0 ? whole(loop::Op::mul, at, integer(pool.windows[1].extent)) : whole(loop::Op::add, out.place, at);
    if (is_inside != kWhole) out.is_inside = out.is_inside == kWhole ? is_inside : both(out.is_inside, is_inside);
  }
  std::vector<TermId> operands;
  access.has_mask = out.is_inside != kWhole;
  if (access.has_mask) operands.push_back(out.is_inside);
  if (index != kWhole) {
    access.index_stride = 1;
    operands.push_back(index);
  }
  DType dtype = graph_.values[pool.source.id].type.dtype;
  out.value = cast(load(pool.source.id, access, std::move(operands)), dtype, ops::register_type(dtype));
  return out;
}

void Terms::add_pool(const ir::Node& node, const ops::Pool& pool) {
  std::vector<ValueId> results = ops::results_of(node);
  DType dtype = graph_.values[results[0]].type.dtype, wide = ops::register_type(dtype);
  if (pool.is_mean) {
    known_[{results[0], dtype, kWhole}] = cast(window_mean(pool, wide), wide, dtype);
    return;
  }
  // As ATen's loop has it: the first of equal ones stays, a NaN wins.
  TermId none = constant(-std::numeric_limits<double>::infinity(), wide), out = none, place = kWhole;
  for (size_t w = 0; w < 2; ++w) {
    TermId begin = whole(loop::Op::max, window_begin(pool, w), integer(0));
    place = w == 0 ? whole(loop::Op::mul, begin, integer(pool.windows[1].extent)) : whole(loop::Op::add, place, begin);
  }
  for (int64_t row = 0; row < pool.windows[0].size; ++row)
    for (int64_t column = 0; column < pool.windows[1].size; ++column) {
      WindowElement at = window_element(pool, row, column);
      TermId value = at.is_inside == kWhole ? at.value : compute(loop::Op::select, wide, {at.is_inside, at.value, none});
      TermId is_larger = compute(loop::Op::gt, wide, {value, out}), is_nan = compute(loop::Op::ne, wide, {value, value});
      TermId wins = compute(loop::Op::bit_or, DType::boolean, {is_larger, is_nan});
      out = compute(loop::Op::select, wide, {wins, value, out});
      place = compute(loop::Op::select, DType::i64, {wins, at.place, place});
    }
  known_[{results[0], dtype, kWhole}] = cast(out, wide, dtype);
  if (results[1] != ir::kNoValue) known_[{results[1], DType::i64, kWhole}] = place;
}

TermId Terms::window_mean(const ops::Pool& pool, DType wide) {
  TermId sum = constant(int64_t{0}, wide), count = sum;
  for (int64_t row = 0; row < pool.windows[0].size; ++row)
    for (int64_t column = 0; column < pool.windows[1].size; ++column) {
      WindowElement at = window_element(pool, row, column);
      TermId one = constant(int64_t{1}, wide);
      if (at.is_inside != kWhole && !pool.counts_padding)
        one = compute(loop::Op::select, wide, {at.is_inside, one, constant(int64_t{0}, wide)});
      sum = compute(loop::Op::add, wide, {sum, at.value});
      count = compute(loop::Op::add, wide, {count, one});
    }
  if (pool.divisor) count = constant(*pool.divisor, wide);
  return compute(loop::Op::div, wide, {sum, count});
}

// Where along one dimension of the source an element comes from.
TermId Terms::moved(const ops::Move& move, const ops::Move::Along& along) {
  using Kind = ops::Move::Kind;
  TermId at = position(along.dim), last = integer(along.extent - 1), shifted = whole(loop::Op::sub, at, integer(along.shift));
  auto distance = [&](TermId a) { return compute(loop::Op::abs, DType::i64, {a}); };
  switch (move.kind) {
    case Kind::flip:
      return whole(loop::Op::sub, last, at);
    case Kind::roll:
      return compute(loop::Op::select, DType::i64,
                     {whole(loop::Op::lt, shifted, integer(0)), whole(loop::Op::add, shifted, integer(along.extent)), shifted});
    case Kind::reflect:
      return whole(loop::Op::sub, last, distance(whole(loop::Op::sub, last, distance(shifted))));
    case Kind::clamp:
      return whole(loop::Op::min, whole(loop::Op::max, shifted, integer(0)), last);
    case Kind::nearest:
      return whole(loop::Op::min, scaled_down(at, along.scale), last);
    default:
      return shifted;
  }
}

TermId Terms::moved_element(const ops::Move& move, const std::vector<TermId>& places) {
  TermId index = integer(0), is_inside = kWhole;
  for (size_t i = 0; i < places.size(); ++i) {
    index = whole(loop::Op::add, index, whole(loop::Op::mul, places[i], integer(move.along[i].step)));
    if (move.kind != ops::Move::Kind::pad) continue;
    TermId here = is_between(places[i], 0, move.along[i].extent);
    is_inside = is_inside == kWhole ? here : both(is_inside, here);
  }
  std::vector<TermId> operands;
  if (is_inside != kWhole) operands.push_back(is_inside);
  operands.push_back(index);
  DType dtype = graph_.values[move.source.id].type.dtype, wide = ops::register_type(dtype);
  TermId value = cast(load(move.source.id, {0, is_inside != kWhole, 1}, std::move(operands)), dtype, wide);
  if (is_inside == kWhole) return value;
  TermId beyond = cast(cast(argument(2, wide), wide, dtype), dtype, wide);
  return compute(loop::Op::select, wide, {is_inside, value, beyond});
}

// The two neighbours along a dimension, and how much of the second one is taken.
Terms::Neighbours Terms::neighbours(const ops::Move::Along& along, DType wide) {
  TermId at = position(along.dim), zero = constant(int64_t{0}, wide), one = constant(int64_t{1}, wide), half = constant(0.5, wide);
  if (group_.sizes[along.dim] == along.extent) return {at, at, zero};  // as ATen has it: an infinite element becomes NaN
  TermId where = cast(at, DType::i64, wide), last = integer(along.extent - 1);
  if (along.by_corners) {
    where = compute(loop::Op::mul, wide, {where, constant(along.scale, wide)});
  } else {
    // Rounded once, as libtorch's compiler has it: that decides whether a neighbour counts at all.
    TermId centre = compute(loop::Op::add, wide, {where, half});
    where = compute(loop::Op::max, wide, {compute(loop::Op::fma, wide, {centre, constant(along.scale, wide), constant(-0.5, wide)}), zero});
  }
  TermId first = whole(loop::Op::min, cast(compute(loop::Op::floor, wide, {where}), wide, DType::i64), last);
  TermId share = compute(loop::Op::sub, wide, {where, cast(first, DType::i64, wide)});
  share = compute(loop::Op::min, wide, {compute(loop::Op::max, wide, {share, zero}), one});
  return {first, whole(loop::Op::min, whole(loop::Op::add, first, integer(1)), last), share};
}

// Between the neighbours along the dimensions that have no place yet.
TermId Terms::between(const ops::Move& move, std::vector<TermId> places, DType wide) {
  if (places.size() == move.along.size()) return moved_element(move, places);
  Neighbours two = neighbours(move.along[places.size()], wide);
  places.push_back(two.first);
  TermId before = between(move, places, wide);
  places.back() = two.second;
  TermId behind = between(move, places, wide), rest = compute(loop::Op::sub, wide, {constant(int64_t{1}, wide), two.share});
  return compute(loop::Op::add, wide, {compute(loop::Op::mul, wide, {rest, before}), compute(loop::Op::mul, wide, {two.share, behind})});
}

void Terms::add_move(const ir::Node& node, const ops::Move& move) {
  node_ = &node;
  ValueId result = ops::results_of(node)[0];
  DType dtype = graph_.values[result].type.dtype, wide = ops::register_type(dtype);
  std::vector<TermId> places;
  bool is_linear = move.kind == ops::Move::Kind::linear;
  if (!is_linear)
    for (const ops::Move::Along& along : move.along) places.push_back(moved(move, along));
  known_[{result, dtype, kWhole}] = cast(is_linear ? between(move, {}, wide) : moved_element(move, places), wide, dtype);
}

}  // namespace tenon::loops
