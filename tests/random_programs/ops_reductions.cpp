// Reductions, scans and sorts over one dimension or all.
#include "random_programs/ops.h"

namespace tenon::random_programs {
namespace {

// Returns two dimensions, or none for a 0-d tensor.
std::vector<int64_t> two_dims(const Tensor& t, Parameters& p) {
  require(t.dim() >= 2);
  int64_t a = p.below(0, t.dim());
  return {a, (a + 1 + p.below(1, t.dim() - 1)) % t.dim()};
}

}  // namespace

#define WHOLE(name) \
  { #name, Wants::any, 1, Fit::any, DO(torch::name(x[0])) }
#define ALONG(name) \
  { #name " along", Wants::any, 1, Fit::any, DO(torch::name(x[0], p.dim(0, x[0]))) }
#define ALONG_KEEP(name) \
  { #name " along", Wants::any, 1, Fit::any, DO(torch::name(x[0], p.dim(0, x[0]), p.flag(1))) }

const std::vector<Op> reduction_ops = {
    WHOLE(sum),
    WHOLE(mean),
    WHOLE(prod),
    WHOLE(max),
    WHOLE(min),
    WHOLE(argmax),
    WHOLE(argmin),
    WHOLE(all),
    WHOLE(any),
    WHOLE(std),
    WHOLE(var),
    WHOLE(norm),
    WHOLE(median),
    WHOLE(nansum),
    WHOLE(nanmean),
    WHOLE(count_nonzero),
    WHOLE(aminmax),
    WHOLE(trace),
    WHOLE(diff),
    WHOLE(nanmedian),
    ALONG(cumsum),
    ALONG(cumprod),
    ALONG(cummax),
    ALONG(cummin),
    ALONG(logcumsumexp),
    ALONG(softmax),
    ALONG(log_softmax),
    ALONG(argsort),
    ALONG(sort),
    ALONG_KEEP(amax),
    ALONG_KEEP(amin),
    ALONG_KEEP(max),
    ALONG_KEEP(min),
    ALONG_KEEP(argmax),
    ALONG_KEEP(argmin),
    ALONG_KEEP(all),
    ALONG_KEEP(any),
    ALONG_KEEP(mode),
    ALONG_KEEP(prod),
    ALONG_KEEP(logsumexp),
    {"sum along", Wants::any, 1, Fit::any, DO(torch::sum(x[0], p.dim(0, x[0]), p.flag(1)))},
    {"sum over two", Wants::any, 1, Fit::any, DO(torch::sum(x[0], two_dims(x[0], p), p.flag(2)))},
    {"sum as", Wants::any, 1, Fit::any, DO(torch::sum(x[0], p.dtype(0)))},
    {"mean along", Wants::floating, 1, Fit::any, DO(torch::mean(x[0], p.dim(0, x[0]), p.flag(1)))},
    {"mean over two", Wants::floating, 1, Fit::any, DO(torch::mean(x[0], two_dims(x[0], p), p.flag(2)))},
    {"var along", Wants::floating, 1, Fit::any, DO(torch::var(x[0], at::OptionalIntArrayRef(p.dim(0, x[0])), p.below(1, 2), p.flag(2)))},
    {"std along", Wants::floating, 1, Fit::any, DO(torch::std(x[0], at::OptionalIntArrayRef(p.dim(0, x[0])), p.below(1, 2), p.flag(2)))},
    {"var_mean", Wants::floating, 1, Fit::any,
     DO(torch::var_mean(x[0], at::OptionalIntArrayRef(p.dim(0, x[0])), p.below(1, 2), p.flag(2)))},
    {"std_mean", Wants::floating, 1, Fit::any, DO(torch::std_mean(x[0], p.flag(0)))},
    // For a 0-d tensor ATen reads sizes that the object had before, and the last bits of its result differ.
    {"norm along", Wants::floating, 1, Fit::any, DO(torch::norm(torch::atleast_1d(x[0]), p.real(0), p.dim(1, x[0]), p.flag(2)))},
    {"vector_norm", Wants::floating, 1, Fit::any, DO(torch::linalg_vector_norm(x[0], p.real(0)))},
    {"dist", Wants::floating, 2, Fit::alike, DO(torch::dist(x[0], x[1], p.real(0)))},
    {"renorm", Wants::floating, 1, Fit::any, DO(torch::renorm(x[0], 2, p.dim(0, x[0]), p.real(1)))},
    {"kthvalue", Wants::any, 1, Fit::any, DO(torch::kthvalue(x[0], 1, p.dim(0, x[0]), p.flag(1)))},
    {"topk", Wants::any, 1, Fit::any, DO(torch::topk(x[0], p.below(0, 3), p.dim(1, x[0]), p.flag(2), p.flag(3)))},
    {"sort stable", Wants::any, 1, Fit::any, DO(torch::sort(x[0], std::optional<bool>(true), p.dim(0, x[0]), p.flag(1)))},
    {"diff along", Wants::any, 1, Fit::any, DO(torch::diff(x[0], 1, p.dim(0, x[0])))},
    {"softmax as float", Wants::any, 1, Fit::any, DO(torch::softmax(x[0], p.dim(0, x[0]), torch::kFloat))},
    {"cumsum as", Wants::any, 1, Fit::any, DO(torch::cumsum(x[0], p.dim(0, x[0]), p.dtype(1)))},
    {"sum to", Wants::any, 2, Fit::broadcast, DO(at::sum_to(x[0], x[1].sizes()))},
};

#undef WHOLE
#undef ALONG
#undef ALONG_KEEP

}  // namespace tenon::random_programs
