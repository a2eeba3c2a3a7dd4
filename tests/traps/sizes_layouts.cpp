// Sizes change together with strides, offset and type of the argument; catches strides that are computed from sizes.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

enum LayoutKind : int64_t { kDense, kTransposed, kSlice, kExpandedRows, kExpandedColumns, kEverySecond, kDoubles };

struct LayoutsAndSizes : SizesTrap {
  Tensors inputs(const Sizes& sizes) override {
    int64_t rows = sizes[0], columns = sizes[1];
    switch (sizes[2]) {
      case kTransposed:
        return {torch::randn({columns, rows}).t()};
      case kSlice:
        return {torch::randn({rows + 3, columns + 5}).narrow(0, 2, rows).narrow(1, 4, columns)};
      case kExpandedRows:
        return {torch::randn({1, columns}).expand({rows, columns})};
      case kExpandedColumns:
        return {torch::randn({rows, 1}).expand({rows, columns})};
      case kEverySecond:
        return {torch::randn({rows, 2 * columns}).slice(1, 1, 2 * columns, 2)};
      case kDoubles:
        return {torch::randn({rows, columns}, torch::kDouble)};
      default:
        return {torch::randn({rows, columns})};
    }
  }
  Tensors run(const Tensors& in) override {
    const torch::Tensor& x = in[0];
    torch::Tensor flat = x.t().reshape({-1});
    return {x * 2 + 1,           torch::softmax(x, 1),           torch::matmul(x.t(), x),
            flat * flat.size(0), (x + x.sum(1, true)).t().exp(), x.t().select(0, 1)};
  }
};

const std::vector<Sizes> kLayoutCalls = {{4, 8, kDense},         {6, 12, kDense},          {6, 12, kDense},     {6, 12, kTransposed},
                                         {4, 8, kTransposed},    {6, 8, kSlice},           {4, 8, kSlice},      {4, 8, kExpandedRows},
                                         {6, 12, kExpandedRows}, {5, 7, kDense},           {8, 8, kTransposed}, {8, 8, kDense},
                                         {5, 7, kSlice},         {5, 7, kEverySecond},     {6, 12, kDoubles},   {4, 8, kDoubles},
                                         {6, 12, kDense},        {3, 5, kExpandedColumns}, {5, 7, kDoubles},    {5, 7, kTransposed},
                                         {7, 5, kTransposed},    {6, 8, kExpandedColumns}, {6, 8, kSlice},      {2, 2, kTransposed}};

}  // namespace

TEST(Traps, C5LayoutsChecked) { compare_at_sizes<LayoutsAndSizes>(Trust::checked, kLayoutCalls); }
TEST(Traps, C5LayoutsPure) { compare_at_sizes<LayoutsAndSizes>(Trust::pure, kLayoutCalls); }

}  // namespace tenon::test
