// The op table of the random programs: one row an op. A step of a program is pure data (row,
// operands, parameters); a row's function turns it into ATen calls.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <exception>
#include <string>
#include <tuple>
#include <vector>

namespace tenon::fuzz {

using Tensors = std::vector<torch::Tensor>;
using torch::Tensor;

inline constexpr int64_t kMaxElements = 4096;
inline constexpr int64_t kMaxRank = 6;

// A row does not want these operands.
struct Rejected : std::exception {
  const char* what() const noexcept override { return "rejected by the op table"; }
};
inline void require(bool condition) {
  if (!condition) throw Rejected();
}

// A few small integers that a row reads by slot, so that the order of evaluation does not matter.
// Reading reduces a slot to its range: a program that ran once holds the numbers that it used.
class Parameters {
 public:
  static constexpr size_t kSlots = 5;
  std::array<int64_t, kSlots> slots{};
  std::array<bool, kSlots> used{};

  int64_t below(size_t slot, int64_t limit) {
    used[slot] = true;
    slots[slot] = limit > 0 ? slots[slot] % limit : 0;
    return slots[slot];
  }
  bool flag(size_t slot) { return below(slot, 2) == 1; }
  // A dimension of the tensor, counted from either end.
  int64_t dim(size_t slot, const Tensor& of) {
    int64_t rank = std::max<int64_t>(1, of.dim());
    return below(slot, 2 * rank) - rank;
  }
  template <class T, size_t N>
  T pick(size_t slot, const T (&list)[N]) {
    return list[below(slot, N)];
  }
  torch::Scalar number(size_t slot);
  double real(size_t slot);
  torch::ScalarType dtype(size_t slot);
  std::string text() const;
};

// What the first operand must hold.
enum class Wants { any, floating, integer };
// How further operands go with the first. `broadcast`: any element type; the rest: the same one.
enum class Fit { any, broadcast, alike, same, inner };

struct Op {
  const char* name;
  Wants wants;
  size_t operands;
  Fit fit;
  Tensors (*apply)(const Tensors& x, Parameters& p);
  bool depends_on_loop = false;  // which of ATen's loops runs shows in the result (docs/limits.md)
};

struct Family {
  const char* name;
  int weight;
  const std::vector<Op>& rows;
  bool random = false;
  bool reads_on_host = false;  // what it returns depends on contents that no op shows
};
const std::vector<Family>& families();
const std::vector<const Op*>& all_ops();

inline Tensors as_list(Tensor t) { return {std::move(t)}; }
inline Tensors as_list(Tensors list) { return list; }
template <class... T>
Tensors as_list(const std::tuple<T...>& all) {
  return std::apply([](const auto&... t) { return Tensors{t...}; }, all);
}

// libtorch asks for a non-const handle of what it overwrites, here and there.
inline Tensor& target(const Tensor& t) { return const_cast<Tensor&>(t); }

// A divisor without -1, if it holds integers: ATen's division of the smallest integer by -1 ends the process (SIGFPE).
inline Tensor divisor(const Tensor& t) {
  return c10::isIntegralType(t.scalar_type(), /*includeBool=*/false) ? t.masked_fill(t == -1, 1) : t;
}

// The last bit of a computed number may decide on which side of an integer it falls, and kernels may differ from ATen there.
inline Tensor off_integers(const Tensor& t) { return t.is_floating_point() ? t * 1.37 + 0.21 : t; }

// The body of a row: an expression over the operands x[i] and the parameters p.
#define DO(...)                                    \
  [](const Tensors& x, Parameters& p) -> Tensors { \
    (void)x, (void)p;                              \
    return as_list(__VA_ARGS__);                   \
  }

// Index tensors that always lie in range, made from whatever an operand holds.
Tensor indices_from(const Tensor& any, int64_t limit);
Tensor some_indices(Parameters& p, size_t slot, int64_t limit);
int64_t size_at(const Tensor& t, int64_t dim);

extern const std::vector<Op> pointwise_ops, binary_ops, reduction_ops, view_ops, shape_ops, in_place_ops, view_write_ops, matrix_ops,
    indexing_ops, norm_ops, random_ops, factory_ops, host_ops;

}  // namespace tenon::fuzz
