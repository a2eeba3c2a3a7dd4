#include "dist/buckets.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ScalarOps.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tenon::dist {
namespace {

// The first bucket is small, so that its sum begins early. PyTorch's DistributedDataParallel has the same size.
constexpr size_t kFirstBucketBytes = 1 << 20;

int64_t elements(const std::vector<at::Tensor>& tensors) {
  int64_t out = 0;
  for (const at::Tensor& tensor : tensors) out += tensor.numel();
  return out;
}

// Not a view, because zero_grad() cannot detach views.
at::Tensor part_of(const at::Tensor& flat, int64_t offset, at::IntArrayRef sizes) {
  return at::empty({0}, flat.options()).set_(flat.storage(), offset, sizes);
}

bool share_memory(const at::Tensor& gradient, const at::Tensor& flat) {
  return gradient.defined() && gradient.storage().is_alias_of(flat.storage());
}

}  // namespace

struct GradientBuckets::Hook : torch::autograd::PostAccumulateGradHook {
  Hook(GradientBuckets& owner, size_t bucket) : owner(owner), bucket(bucket) {}
  void operator()(const at::Tensor&) override { owner.note_gradient(bucket); }
  GradientBuckets& owner;
  size_t bucket;
};

GradientBuckets::GradientBuckets(const std::vector<at::Tensor>& parameters, std::shared_ptr<ProcessGroup> group, size_t bucket_bytes)
    : group_(std::move(group)) {
  size_t bytes = 0;
  // A backward computes the gradients of the last parameters first.
  for (auto next = parameters.rbegin(); next != parameters.rend(); ++next) {
    if (!next->requires_grad()) {
      frozen_.push_back(*next);
      continue;
    }
    size_t limit = buckets_.size() <= 1 ? std::min(kFirstBucketBytes, bucket_bytes) : bucket_bytes;
    bool fits = !buckets_.empty() && buckets_.back().parameters[0].scalar_type() == next->scalar_type() && bytes + next->nbytes() <= limit;
    if (!fits) {
      buckets_.emplace_back();
      bytes = 0;
    }
    buckets_.back().parameters.push_back(*next);
    bytes += next->nbytes();
  }
  if (group_->size() > 1)
    for (GradientBucket& bucket : buckets_) allocate(bucket);
}

GradientBuckets::~GradientBuckets() {
  if (!has_hooks_) return;
  for (GradientBucket& bucket : buckets_)
    for (const at::Tensor& parameter : bucket.parameters) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void GradientBuckets::allocate(GradientBucket& bucket) {
  int64_t offset = 0, count = static_cast<int64_t>(bucket.parameters.size());
  bucket.flat = at::empty({elements(bucket.parameters) + count}, bucket.parameters[0].options().requires_grad(false));
  bucket.parts.clear();
  for (const at::Tensor& parameter : bucket.parameters) {
    bucket.parts.push_back(part_of(bucket.flat, offset, parameter.sizes()));
    offset += parameter.numel();
  }
  bucket.counts = part_of(bucket.flat, offset, {count});
}

void GradientBuckets::fill(GradientBucket& bucket) {
  size_t own = bucket.parts.size() + 2;  // The tensors of the bucket itself.
  for (const at::Tensor& parameter : bucket.parameters) {
    if (parameter.grad().defined() && parameter.grad().is_sparse())
      throw UserError(ErrorCode::config, "sparse gradients are not averaged. Make the embedding with sparse(false).");
    own += share_memory(parameter.grad(), bucket.flat);
  }
  // The program has kept gradients of an earlier step.
  if (bucket.flat.storage().use_count() > own) allocate(bucket);
  bucket.counts.fill_(1);
  for (size_t i = 0; i < bucket.parameters.size(); ++i) {
    const at::Tensor& parameter = bucket.parameters[i];
    const at::Tensor& gradient = parameter.grad();
    if (!parameter.requires_grad())
      throw UserError(ErrorCode::config,
                      "a parameter no longer requires gradients. Freeze parameters before Accelerator::prepare, in all processes.");
    if (gradient.defined()) {
      at::mul_out(bucket.parts[i], gradient, at::native::wrapped_scalar_tensor(1.0 / group_->size()));
    } else {
      bucket.parts[i].zero_();
      bucket.counts[static_cast<int64_t>(i)].zero_();
    }
  }
}

// Sets the gradients to the bucket's memory.
void GradientBuckets::take(GradientBucket& bucket) {
  bucket.sum.wait();
  at::Tensor counts = bucket.counts.to(at::kFloat);
  for (size_t i = 0; i < bucket.parameters.size(); ++i) {
    at::Tensor& parameter = bucket.parameters[i];
    bool is_taken = share_memory(parameter.grad(), bucket.flat);
    if (counts.const_data_ptr<float>()[i] > 0 && !is_taken)
      parameter.mutable_grad() = part_of(bucket.flat, bucket.parts[i].storage_offset(), parameter.sizes());
  }
}

void GradientBuckets::begin(GradientBucket& bucket) {
  fill(bucket);
  bucket.sum = group_->sum(bucket.flat);
  ++begun_;
}

void GradientBuckets::begin_early() {
  if (group_->size() == 1) return;
  is_early_ = true;
  for (GradientBucket& bucket : buckets_) bucket.missing = bucket.parameters.size();
  if (has_hooks_) return;
  has_hooks_ = true;
  for (size_t i = 0; i < buckets_.size(); ++i)
    for (const at::Tensor& parameter : buckets_[i].parameters)
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Hook>(*this, i));
}

void GradientBuckets::note_gradient(size_t bucket) {
  if (!is_early_) return;
  --buckets_[bucket].missing;
  at::NoGradGuard no_grad;
  while (begun_ < buckets_.size() && buckets_[begun_].missing == 0) begin(buckets_[begun_]);
}

void GradientBuckets::average() {
  if (group_->size() == 1) return;
  at::NoGradGuard no_grad;
  is_early_ = false;
  for (const at::Tensor& parameter : frozen_)
    if (parameter.requires_grad())
      throw UserError(
          ErrorCode::config,
          "a parameter requires gradients that was frozen when it was prepared. Prepare a module when its parameters are as trained.");
  while (begun_ < buckets_.size()) begin(buckets_[begun_]);
  for (GradientBucket& bucket : buckets_) take(bucket);
  begun_ = 0;
}

}  // namespace tenon::dist
