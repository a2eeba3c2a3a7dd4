// The op table of the random programs: one entry per op. A step of a program is pure data (entry, operands, parameters); the
// entry's function translates it to ATen calls.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <exception>
#include <string>
#include <tuple>
#include <vector>

namespace tenon::random_programs {

using Tensors = std::vector<torch::Tensor>;
using torch::Tensor;

inline constexpr int64_t kMaxElements = 4096;
inline constexpr int64_t kMaxRank = 6;

// Thrown if an op does not accept these operands.
struct Rejected : std::exception {
  const char* what() const noexcept override { return "rejected by the op table"; }
};
inline void require(bool condition) {
  if (!condition) throw Rejected();
}

// Small integers that an op reads by index, so that the order of evaluation does not matter. Reading reduces a value to its
// range, so a program that ran once contains the values that it used.
class Parameters {
 public:
  static constexpr size_t kCount = 5;
  std::array<int64_t, kCount> values{};
  std::array<bool, kCount> used{};

  int64_t below(size_t index, int64_t limit) {
    used[index] = true;
    values[index] = limit > 0 ? values[index] % limit : 0;
    return values[index];
  }
  bool flag(size_t index) { return below(index, 2) == 1; }
  // Returns a dimension of the tensor, counted from either end.
  int64_t dim(size_t index, const Tensor& of) {
    int64_t rank = std::max<int64_t>(1, of.dim());
    return below(index, 2 * rank) - rank;
  }
  template <class T, size_t N>
  T pick(size_t index, const T (&list)[N]) {
    return list[below(index, N)];
  }
  torch::Scalar scalar(size_t index);
  double real(size_t index);
  torch::ScalarType dtype(size_t index);
  std::string text() const;
};

// Required dtypes of the first operand.
enum class Wants { any, floating, integer };
// Required relation of further operands to the first. `broadcast` allows any dtype; `alike`, `same` and `inner` require the same one.
enum class Fit { any, broadcast, alike, same, inner };

struct Op {
  const char* name;
  Wants wants;
  size_t operands;
  Fit fit;
  Tensors (*apply)(const Tensors& x, Parameters& p);
  bool depends_on_loop = false;  // The result depends on which of ATen's loops runs (docs/limits.md).
};

struct Family {
  const char* name;
  int weight;
  const std::vector<Op>& ops;
  bool random = false;
  bool reads_on_host = false;  // Results depend on contents that the program reads without an op.
};
const std::vector<Family>& families();
const std::vector<const Op*>& all_ops();

inline Tensors as_list(Tensor t) { return {std::move(t)}; }
inline Tensors as_list(Tensors list) { return list; }
template <class... T>
Tensors as_list(const std::tuple<T...>& all) {
  return std::apply([](const auto&... t) { return Tensors{t...}; }, all);
}

// Some functions of libtorch require a non-const handle of the tensor that they overwrite.
inline Tensor& target(const Tensor& t) { return const_cast<Tensor&>(t); }

// A divisor without -1, if it holds integers: ATen's division of the smallest integer by -1 ends the process (SIGFPE).
inline Tensor divisor(const Tensor& t) {
  return c10::isIntegralType(t.scalar_type(), /*includeBool=*/false) ? t.masked_fill(t == -1, 1) : t;
}

// The last bit of a computed number may decide on which side of an integer it falls, and kernels may differ from ATen there.
inline Tensor off_integers(const Tensor& t) { return t.is_floating_point() ? t * 1.37 + 0.21 : t; }

// The body of an op: an expression over the operands x[i] and the parameters p.
#define DO(...)                                    \
  [](const Tensors& x, Parameters& p) -> Tensors { \
    (void)x, (void)p;                              \
    return as_list(__VA_ARGS__);                   \
  }

// Returns an index tensor that is always in range, computed from the contents of an operand.
Tensor indices_from(const Tensor& any, int64_t limit);
Tensor some_indices(Parameters& p, size_t index, int64_t limit);
int64_t size_at(const Tensor& t, int64_t dim);

extern const std::vector<Op> pointwise_ops, binary_ops, reduction_ops, view_ops, shape_ops, in_place_ops, view_write_ops, matrix_ops,
    indexing_ops, norm_ops, random_ops, factory_ops, host_ops;

}  // namespace tenon::random_programs
