// One tensor in, one of the same shape out; then two or three that broadcast.
#include "fuzz/ops.h"

namespace tenon::fuzz {

#define UNARY(name) {#name, Wants::any, 1, Fit::any, DO(torch::name(x[0]))}
#define BINARY(name) {#name, Wants::any, 2, Fit::broadcast, DO(torch::name(x[0], x[1]))}

const std::vector<Op> pointwise_ops = {
    UNARY(abs), UNARY(neg), UNARY(exp), UNARY(exp2), UNARY(expm1), UNARY(log), UNARY(log2), UNARY(log10), UNARY(log1p),
    UNARY(sqrt), UNARY(rsqrt), UNARY(sin), UNARY(cos), UNARY(tan), UNARY(asin), UNARY(acos), UNARY(atan), UNARY(sinh),
    UNARY(cosh), UNARY(tanh), UNARY(asinh), UNARY(acosh), UNARY(atanh), UNARY(sigmoid), UNARY(relu), UNARY(relu6),
    UNARY(silu), UNARY(mish), UNARY(erf), UNARY(erfc), UNARY(erfinv), UNARY(lgamma), UNARY(digamma), UNARY(reciprocal),
    UNARY(square), UNARY(sign), UNARY(sgn), UNARY(floor), UNARY(ceil), UNARY(round), UNARY(trunc), UNARY(frac), UNARY(isnan),
    UNARY(isinf), UNARY(isfinite), UNARY(logical_not), UNARY(bitwise_not), UNARY(signbit), UNARY(positive), UNARY(sinc),
    UNARY(i0), UNARY(deg2rad), UNARY(selu), UNARY(hardswish), UNARY(hardsigmoid), UNARY(log_sigmoid),
    {"logit", Wants::floating, 1, Fit::any, DO(torch::logit(x[0], 1e-3))},
    {"gelu", Wants::floating, 1, Fit::any, DO(torch::gelu(x[0], p.flag(0) ? "tanh" : "none"))},
    {"softplus", Wants::floating, 1, Fit::any, DO(torch::softplus(x[0], p.real(0), 20))},
    {"hardtanh", Wants::any, 1, Fit::any, DO(torch::hardtanh(x[0], -1, 1))},
    {"elu", Wants::floating, 1, Fit::any, DO(torch::elu(x[0], p.number(0)))},
    {"celu", Wants::floating, 1, Fit::any, DO(torch::celu(x[0], p.real(0)))},
    {"leaky_relu", Wants::floating, 1, Fit::any, DO(torch::leaky_relu(x[0], p.number(0)))},
    {"hardshrink", Wants::floating, 1, Fit::any, DO(torch::hardshrink(x[0], 0.5))},
    {"softshrink", Wants::floating, 1, Fit::any, DO(torch::softshrink(x[0], 0.5))},
    {"threshold", Wants::any, 1, Fit::any, DO(torch::threshold(x[0], 0.5, p.number(0)))},
    {"nan_to_num", Wants::any, 1, Fit::any, DO(torch::nan_to_num(x[0], 0.5, 100.0, -100.0))},
    {"clamp", Wants::any, 1, Fit::any, DO(torch::clamp(x[0], -1, p.number(0)))},
    {"clamp_min", Wants::any, 1, Fit::any, DO(torch::clamp_min(x[0], p.number(0)))},
    {"clamp_max", Wants::any, 1, Fit::any, DO(torch::clamp_max(x[0], p.number(0)))},
    {"to", Wants::any, 1, Fit::any, DO(x[0].to(p.dtype(0)))},
    {"to float", Wants::any, 1, Fit::any, DO(x[0].to(torch::kFloat))},
    {"add number", Wants::any, 1, Fit::any, DO(x[0] + p.number(0))},
    {"number minus", Wants::any, 1, Fit::any, DO(p.number(0) - x[0])},
    {"mul number", Wants::any, 1, Fit::any, DO(x[0] * p.number(0))},
    {"div number", Wants::any, 1, Fit::any, DO(x[0] / 3)},
    {"pow number", Wants::any, 1, Fit::any, DO(torch::pow(x[0], p.number(0)))},
    {"number to the", Wants::any, 1, Fit::any, DO(torch::pow(2.0, x[0]))},
    {"compare number", Wants::any, 1, Fit::any, DO(torch::gt(x[0], p.number(0)))},
    {"remainder number", Wants::any, 1, Fit::any, DO(torch::remainder(x[0], p.number(0)))},
    {"shift left", Wants::integer, 1, Fit::any, DO(torch::bitwise_left_shift(x[0], 1))},
    {"cast round trip", Wants::floating, 1, Fit::any, DO(x[0].to(torch::kBFloat16).to(x[0].scalar_type()))},
};

const std::vector<Op> binary_ops = {
    BINARY(add), BINARY(sub), BINARY(mul), BINARY(div), BINARY(pow), BINARY(atan2), BINARY(maximum), BINARY(minimum),
    BINARY(fmax), BINARY(fmin), BINARY(eq), BINARY(ne), BINARY(lt), BINARY(le), BINARY(gt), BINARY(ge), BINARY(logical_and),
    BINARY(logical_or), BINARY(logical_xor), BINARY(bitwise_and), BINARY(bitwise_or), BINARY(bitwise_xor), BINARY(hypot),
    BINARY(logaddexp), BINARY(logaddexp2), BINARY(copysign), BINARY(nextafter), BINARY(xlogy), BINARY(fmod), BINARY(remainder),
    BINARY(floor_divide), BINARY(rsub), BINARY(ldexp), BINARY(true_divide), BINARY(gcd),
    {"add scaled", Wants::any, 2, Fit::broadcast, DO(torch::add(x[0], x[1], p.number(0)))},
    {"sub scaled", Wants::any, 2, Fit::broadcast, DO(torch::sub(x[0], x[1], p.number(0)))},
    {"operators", Wants::any, 2, Fit::broadcast, DO(x[0] * 2 - x[1] / 3 + 1)},
    {"div floor", Wants::any, 2, Fit::broadcast, DO(torch::div(x[0], x[1], "floor"))},
    {"div trunc", Wants::any, 2, Fit::broadcast, DO(torch::div(x[0], x[1], "trunc"))},
    {"heaviside", Wants::any, 2, Fit::alike, DO(torch::heaviside(x[0], x[1]))},
    {"where", Wants::any, 3, Fit::broadcast, DO(torch::where(x[2].to(torch::kBool), x[0], x[1]))},
    {"where compare", Wants::any, 2, Fit::broadcast, DO(torch::where(x[0] > x[1], x[0], x[1]))},
    {"lerp", Wants::floating, 3, Fit::alike, DO(torch::lerp(x[0], x[1], x[2]))},
    {"lerp number", Wants::floating, 2, Fit::alike, DO(torch::lerp(x[0], x[1], p.number(0)))},
    {"addcmul", Wants::any, 3, Fit::alike, DO(torch::addcmul(x[0], x[1], x[2], p.number(0)))},
    {"addcdiv", Wants::floating, 3, Fit::alike, DO(torch::addcdiv(x[0], x[1], x[2], p.number(0)))},
    {"clamp tensors", Wants::any, 3, Fit::broadcast, DO(torch::clamp(x[0], x[1], x[2]))},
    {"prelu", Wants::floating, 2, Fit::same, DO(torch::prelu(x[0], x[1].flatten().narrow(0, 0, 1)))},
    {"mse_loss", Wants::floating, 2, Fit::same, DO(torch::mse_loss(x[0], x[1], p.below(0, 3)))},
    {"l1_loss", Wants::floating, 2, Fit::same, DO(torch::l1_loss(x[0], x[1], p.below(0, 3)))},
    {"smooth_l1_loss", Wants::floating, 2, Fit::same, DO(torch::smooth_l1_loss(x[0], x[1], p.below(0, 3)))},
    {"huber_loss", Wants::floating, 2, Fit::same, DO(torch::huber_loss(x[0], x[1], p.below(0, 3)))},
    {"bce_with_logits", Wants::floating, 2, Fit::same, DO(torch::binary_cross_entropy_with_logits(x[0], x[1].sigmoid()))},
    {"kl_div", Wants::floating, 2, Fit::same, DO(torch::kl_div(x[0], x[1], p.below(0, 3)))},
};

#undef UNARY
#undef BINARY

}  // namespace tenon::fuzz
