// Operands whose sizes fit at first and later do not, for ops whose Meta kernels accept more than their kernels do; catches calls that
// return where eager mode throws. The result of the op is not used in every second program, so no later op refuses it.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

enum class Refusing { masked_fill, masked_fill_tensor, floor_divide, addmm, addr, index_put, put, norm };

template <Refusing kOp, bool kIsUsed>
struct RefusedSizes : SizesTrap {
  Tensors inputs(const Sizes& sizes) override {
    int64_t a = sizes[0], b = sizes[1];
    return {torch::randn({a}),    torch::randn({b}),    torch::rand({b}) > 0.5, torch::arange(a),
            torch::randn({4, 3}), torch::randn({3, a}), torch::randn({4})};
  }
  Tensors run(const Tensors& in) override {
    torch::Tensor x = in[0].clone(), made = x;
    if (kOp == Refusing::masked_fill) x.masked_fill_(in[2], 0.5);
    if (kOp == Refusing::masked_fill_tensor) x.masked_fill_(in[2], torch::ones({}));
    if (kOp == Refusing::floor_divide) x.floor_divide_(in[1]);
    if (kOp == Refusing::addmm) made = torch::addmm(in[1], in[4], in[5]);
    if (kOp == Refusing::addr) made = torch::addr(in[1], in[6], in[0]);
    if (kOp == Refusing::index_put) x.index_put_({in[3]}, in[1]);
    if (kOp == Refusing::put) made = x.put(in[3], in[1]);
    if (kOp == Refusing::norm) made = torch::norm(x, -1.0, torch::IntArrayRef{0});
    return {kIsUsed ? made * 2 : in[0] + 1};
  }
};

const std::vector<Sizes> kRefusedCalls = {{3, 3}, {4, 4}, {5, 5}, {6, 3}, {7, 7}, {3, 6}, {1, 4}, {4, 1}, {0, 0}, {8, 8}};

template <Refusing kOp>
void compare_refused(Trust trust) {
  compare_at_sizes<RefusedSizes<kOp, true>>(trust, kRefusedCalls, /*is_served=*/false);
  compare_at_sizes<RefusedSizes<kOp, false>>(trust, kRefusedCalls, /*is_served=*/false);
}

void compare_all_refused(Trust trust) {
  compare_refused<Refusing::masked_fill>(trust);
  compare_refused<Refusing::masked_fill_tensor>(trust);
  compare_refused<Refusing::floor_divide>(trust);
  compare_refused<Refusing::addmm>(trust);
  compare_refused<Refusing::addr>(trust);
  compare_refused<Refusing::index_put>(trust);
  compare_refused<Refusing::put>(trust);
  compare_refused<Refusing::norm>(trust);
}

}  // namespace

TEST(Traps, C5RefusedSizesChecked) { compare_all_refused(Trust::checked); }
TEST(Traps, C5RefusedSizesPure) { compare_all_refused(Trust::pure); }

}  // namespace tenon::test
