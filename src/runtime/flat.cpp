#include "runtime/flat.h"

#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "bridge/convert.h"
#include "ir/graph/group.h"

namespace tenon::runtime {
namespace {

using ir::kNoValue;
using ir::ValueId;

// Limits of the graphs that become flat plans, which run on one thread: beyond them libraries and threads are faster. Chosen on the
// small networks of `bench/infer.cpp`.
constexpr int64_t kMaxScratchBytes = 1 << 20, kMaxProductRows = 8, kMaxMultiplyAdds = 1 << 20, kMaxConvolutionMultiplyAdds = 1 << 22,
                  kMaxChannels = 4096, kAlignment = 64;

bool has_channels_last(const ir::FixedType& type) {
  const auto& s = type.sizes;
  return type.strides == std::vector<int64_t>{s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]};
}

// A scratch buffer for one run. It takes the spare block if there is one, and returns its block as the spare one.
class ScratchBuffer {
 public:
  ScratchBuffer(std::atomic<char*>& spare, int64_t bytes) : spare_block_(spare), data_(spare.exchange(nullptr, std::memory_order_acquire)) {
    if (!data_ && bytes > 0) data_ = static_cast<char*>(std::aligned_alloc(kAlignment, static_cast<size_t>(bytes)));
  }
  ~ScratchBuffer() { std::free(spare_block_.exchange(data_, std::memory_order_release)); }
  char* begin() const { return data_; }

 private:
  std::atomic<char*>& spare_block_;
  char* data_;
};

}  // namespace

std::unique_ptr<const FlatPlan> FlatPlan::make(const FrameLayout& layout, const std::vector<FusedOp>& fused_ops,
                                               c10::DispatchKeySet keys_off) {
  const ir::Graph& graph = layout.graph;
  if (!graph.write_backs.empty() || fused_ops.empty()) return nullptr;
  std::unique_ptr<FlatPlan> plan(new FlatPlan(layout, keys_off));
  if (!plan->assign_locations()) return nullptr;
  for (const ir::Node& node : graph.nodes) {
    if (ir::is_view(graph, node)) {
      if (!plan->locate_view(node)) return nullptr;
    } else if (!ir::is_fused(node) || !plan->add(node, fused_ops[ir::group_of(node)])) {
      return nullptr;
    }
  }
  return plan;
}

FlatPlan::~FlatPlan() { std::free(spare_block_.load()); }

// Assigns a location to each input, result and intermediate value.
bool FlatPlan::assign_locations() {
  int32_t buffer = 0;
  for (const ir::Input& input : graph_.inputs) locations_[input.value] = {buffer++, 0};
  std::vector<bool> is_result(graph_.values.size(), false);
  for (ValueId id : graph_.outputs) {
    if (id == kNoValue || graph_.values[id].alias_of != kNoValue || locations_[id].buffer >= 0) return false;
    locations_[id] = {buffer++, 0};
  }
  for (const ir::Node& node : graph_.nodes) {
    if (!ir::is_fused(node)) continue;
    ir::for_each_definition(node, [&](ValueId id) {
      if (locations_[id].buffer >= 0) return;
      const ir::FixedType& type = types_[id];
      locations_[id] = {buffer, bytes_};
      bytes_ += (ir::extent_of(type) * ir::dtype_size(type.dtype) + kAlignment - 1) / kAlignment * kAlignment;
    });
  }
  return bytes_ <= kMaxScratchBytes;
}

bool FlatPlan::locate_view(const ir::Node& node) {
  bool fits = true;
  ir::for_each_definition(node, [&](ValueId id) {
    ValueId base = graph_.values[id].alias_of;
    const ir::FixedType &type = types_[id], &of = types_[base];
    fits &= of.dtype == type.dtype && locations_[base].buffer >= 0 && locations_[id].buffer < 0;
    locations_[id] = locations_[base];
    locations_[id].offset += (type.offset - of.offset) * ir::dtype_size(of.dtype);
  });
  return fits;
}

bool FlatPlan::add(const ir::Node& node, const FusedOp& op) {
  const KernelCall* kernel = op.kernel();
  if (!node.writes.empty() || std::holds_alternative<RewriteCall>(op.call) || (kernel && !kernel->ranges.empty())) return false;
  FlatStep step{.op = &op, .computation = kernel};
  for (size_t k = 1; k < node.args.size(); ++k) step.values.push_back(std::get<ValueId>(node.args[k]));
  step.inputs = step.values.size();
  for (const ir::Result& result : node.results) step.values.push_back(result.ids[0]);
  for (ValueId id : step.values) step.locations.push_back(locations_[id]);
  if (std::any_of(step.locations.begin(), step.locations.end(), [](const BufferOffset& location) { return location.buffer < 0; }))
    return false;
  if (op.product() && !add_product(step)) return false;
  if (const auto* call = std::get_if<ConvolutionCall>(&op.call); call && !add_convolution(step, *call->convolution)) return false;
  steps_.push_back(std::move(step));
  return true;
}

// The index of the graph's input that a value consists of, in any order of dimensions; -1 if there is none.
int64_t FlatPlan::whole_input_of(ValueId id) const {
  const ir::FixedType& type = types_[id];
  while (graph_.values[id].alias_of != kNoValue) id = graph_.values[id].alias_of;
  auto it = std::find_if(graph_.inputs.begin(), graph_.inputs.end(), [&](const ir::Input& input) { return input.value == id; });
  bool is_all = it != graph_.inputs.end() && types_[id].offset == type.offset && ir::extent_of(types_[id]) == ir::extent_of(type) &&
                types_[id].sizes.size() == type.sizes.size();
  return is_all ? it - graph_.inputs.begin() : -1;
}

bool FlatPlan::add_product(FlatStep& step) const {
  const ir::FixedType &left = types_[step.values[0]], &right = types_[step.values[1]];
  FlatProduct out{.gemv = {left.sizes[0], right.sizes[1], left.sizes[1], left.strides[0], right.strides[0] == 1 && right.sizes[1] > 1}};
  const Gemv& g = out.gemv;
  if (!has_gemv() || left.dtype != ir::DType::f32 || g.m > kMaxProductRows || g.m * g.n * g.k > kMaxMultiplyAdds) return false;
  int64_t input = whole_input_of(step.values[1]);
  if (g.transposed && input >= 0) out.weight.emplace().indices = {static_cast<size_t>(input)};
  step.computation = std::move(out);
  return true;
}

bool FlatPlan::add_convolution(FlatStep& step, const ConvolutionStep& call) {
  const ir::Convolution& what = call.what();
  const ir::FixedType &image = types_[step.values[0]], &weight = types_[step.values[1]], &result = types_[step.values.back()];
  FlatConvolution out{.call = &call};
  out.weights.is_required = true;
  SmallConv& c = out.convolution;
  c = {image.sizes[0],  image.sizes[1],  image.sizes[2],  image.sizes[3], result.sizes[1],
       result.sizes[2], result.sizes[3], weight.sizes[2], weight.sizes[3]};
  for (size_t d = 0; d < 2; ++d) {
    c.stride[d] = what.stride[d];
    c.padding[d] = what.padding[d];
    c.dilation[d] = what.dilation[d];
  }
  c.has_relu = what.has_relu;
  if (!has_gemv() || what.groups != 1 || image.dtype != ir::DType::f32 || c.channels > kMaxChannels ||
      c.multiply_adds() > kMaxConvolutionMultiplyAdds || !has_channels_last(result))
    return false;
  if (what.has_other && !has_channels_last(types_[step.values[step.inputs - 1]])) return false;
  for (size_t i = 0; i < call.weights(); ++i) {
    int64_t input = whole_input_of(step.values[1 + i]);
    if (input < 0 || graph_.values[step.values[1 + i]].alias_of != kNoValue) return false;
    out.weights.indices.push_back(static_cast<size_t>(input));
  }
  if (!has_channels_last(image)) {
    out.image_offset = bytes_;
    bytes_ += (c.images * c.channels * c.height * c.width * int64_t{sizeof(float)} + kAlignment - 1) / kAlignment * kAlignment;
  }
  step.computation = std::move(out);
  return bytes_ <= kMaxScratchBytes;
}

// The packed form of inputs: `make` computes it from these tensors if they have changed. Null if it cannot be kept and is not required.
template <class F>
std::shared_ptr<const Pack> FlatPlan::pack(const PackedInputs& what, InputBuffers inputs, c10::ArrayRef<int64_t> detail, F&& make) const {
  c10::SmallVector<Weight, 6> weights;
  for (size_t i : what.indices) {
    const ir::FixedType& type = types_[graph_.inputs[i].value];
    weights.push_back(
        {inputs[i].owner, inputs[i].data, static_cast<size_t>((ir::extent_of(type) - type.offset) * ir::dtype_size(type.dtype))});
  }
  if (auto known = what.packs->known(weights, detail)) return known;
  c10::impl::ExcludeDispatchKeyGuard below(keys_off_);
  auto make_packed = [&] {
    std::vector<at::Tensor> now;
    for (size_t i : what.indices) {
      ir::FixedType type = types_[graph_.inputs[i].value];
      type.offset = 0;
      now.push_back(bridge::tensor_at(const_cast<void*>(inputs[i].data), type));
    }
    Packed out = make(now);
    out.bytes = out.tensor.nbytes();
    return out;
  };
  auto kept = what.packs->get(weights, Form::own, detail, make_packed);
  if (kept || !what.is_required) return kept;
  auto once = std::make_shared<Pack>();
  once->packed = make_packed();
  return once;
}

void FlatPlan::run_as(const KernelCall* kernel, const FlatStep&, c10::ArrayRef<void*> memory, const FlatRun& run) const {
  runtime::run(*kernel, memory, run.scalars);
}

void FlatPlan::run_as(const FlatProduct& product, const FlatStep& step, c10::ArrayRef<void*> memory, const FlatRun& run) const {
  Gemv gemv = product.gemv;
  auto at = [&](size_t i) { return static_cast<float*>(memory[i]); };
  const float* right = at(1);
  std::shared_ptr<const Pack> packed;
  if (product.weight) {
    int64_t detail[] = {gemv.n, gemv.k};
    packed = pack(*product.weight, run.inputs, detail, [&](c10::ArrayRef<at::Tensor> weights) {
      const ir::FixedType& type = types_[step.values[1]];
      return Packed{.tensor = weights[0].as_strided(type.sizes, type.strides).clone(at::MemoryFormat::Contiguous)};
    });
  }
  if (packed) {
    gemv.transposed = false;
    right = packed->packed.tensor.const_data_ptr<float>();
  }
  bool has_bias = step.inputs == 3;
  run_gemv(gemv, at(0), right, has_bias ? at(2) : nullptr, at(step.inputs), 0, gemv.n);
}

void FlatPlan::run_as(const FlatConvolution& convolution, const FlatStep& step, c10::ArrayRef<void*> memory, const FlatRun& run) const {
  alignas(kAlignment) static const float zeros[kMaxChannels] = {};
  const SmallConv& c = convolution.convolution;
  double epsilon = convolution.call->epsilon(run.scalars);
  int64_t detail[] = {std::bit_cast<int64_t>(epsilon), c.channels, c.rows, c.columns};
  auto make = [&](c10::ArrayRef<at::Tensor> weights) {
    auto [weight, bias] = convolution.call->fold(weights, epsilon);
    at::Tensor padded = at::zeros({c.padded_outputs(), weight.size(1), weight.size(2), weight.size(3)});
    padded.narrow(0, 0, weight.size(0)).copy_(weight);
    Packed out{.tensor = padded.permute({2, 3, 1, 0}).contiguous(), .bias = at::zeros({c.padded_outputs()})};
    if (bias.defined()) out.bias.narrow(0, 0, bias.size(0)).copy_(bias);
    return out;
  };
  auto packed = pack(convolution.weights, run.inputs, detail, make);
  auto at = [&](size_t i) { return static_cast<float*>(memory[i]); };
  const float* image = at(0);
  if (convolution.image_offset >= 0) {
    const std::vector<int64_t>& strides = types_[step.values[0]].strides;
    auto* channels_last = reinterpret_cast<float*>(run.scratch + convolution.image_offset);
    image = channels_last;
    for (int64_t n = 0; n < c.images; ++n)
      for (int64_t y = 0; y < c.height; ++y)
        for (int64_t x = 0; x < c.width; ++x)
          for (int64_t k = 0; k < c.channels; ++k)
            *channels_last++ = at(0)[n * strides[0] + k * strides[1] + y * strides[2] + x * strides[3]];
  }
  const float* other = convolution.call->what().has_other ? at(step.inputs - 1) : nullptr;
  run_small_conv(c, image, packed->packed.tensor.const_data_ptr<float>(), packed->packed.bias.const_data_ptr<float>(), other, zeros,
                 at(step.inputs));
}

void FlatPlan::check(const FlatStep& step, c10::ArrayRef<void*> memory, c10::ArrayRef<double> scalars) const {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < step.values.size(); ++i) {
    ir::FixedType type = types_[step.values[i]];
    type.offset = 0;  // The location includes the offset.
    tensors.push_back(bridge::tensor_at(memory[i], type));
  }
  c10::ArrayRef<at::Tensor> all = tensors;
  step.op->check(all.slice(0, step.inputs), all.slice(step.inputs), scalars);
}

FlatPlan::ResultTensors FlatPlan::make_results(bool keeps) const {
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  keeps = keeps && lock.try_lock();
  ResultTensors results;
  if (keeps) last_.resize(graph_.outputs.size());
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const ir::FixedType& type = types_[graph_.outputs[i]];
    bool can_reuse = keeps && last_[i].defined() && is_free(last_[i], type);
    results.push_back(can_reuse ? last_[i] : bridge::empty_of(type));
    if (keeps) last_[i] = results.back();
  }
  return results;
}

FlatPlan::ResultTensors FlatPlan::run(InputBuffers inputs, c10::ArrayRef<double> scalars, bool keeps_results) const {
  ResultTensors results = make_results(keeps_results);
  c10::SmallVector<char*, 24> buffers;
  for (const InputBuffer& input : inputs) buffers.push_back(static_cast<char*>(const_cast<void*>(input.data)));
  for (const at::Tensor& result : results) buffers.push_back(static_cast<char*>(result.mutable_data_ptr()));
  ScratchBuffer block(spare_block_, bytes_);
  buffers.push_back(block.begin());
  c10::SmallVector<void*, 12> memory;
  FlatRun run{inputs, scalars, block.begin()};
  for (const FlatStep& step : steps_) {
    memory.clear();
    for (const BufferOffset& location : step.locations) memory.push_back(buffers[static_cast<size_t>(location.buffer)] + location.offset);
    std::visit([&](const auto& computation) { run_as(computation, step, memory, run); }, step.computation);
    if (step.op->check) check(step, memory, scalars);
  }
  return results;
}

}  // namespace tenon::runtime
