#include "driver/native.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/flags.h"
#include "base/warn.h"
#include "capture/listener.h"
#include "driver/kernel_check.h"
#include "driver/stats.h"
#include "ir/loop/parse.h"
#include "ir/loop/print.h"
#include "ir/loop/verify.h"
#include "loops/lower.h"
#include "ops/entries.h"
#include "ops/lowerable.h"
#include "ops/table.h"
#include "passes/fusion/convolutions.h"
#include "passes/fusion/find_groups.h"
#include "passes/fusion/products.h"
#include "passes/runner.h"
#include "planner/arena.h"
#include "planner/reuse.h"
#include "runtime/tuner.h"
#ifdef TENON_NATIVE
#include "codegen/codegen.h"
#endif

namespace tenon::driver {

#ifdef TENON_NATIVE
namespace {

// Minimum number of elements per thread: at::internal::GRAIN_SIZE, as in eager, or TENON_GRAIN.
int64_t grain() {
  static const char* wanted = flag_text(Flag::grain);
  return wanted ? std::max(1LL, std::atoll(wanted)) : 32768;
}

using CodePointer = std::shared_ptr<const codegen::MachineCode>;

// TENON_TIER=portable or avx2 selects a smaller instruction set than the CPU has.
codegen::Tier chosen_tier() {
  static const codegen::Tier tier = [] {
    const char* wanted = flag_text(Flag::tier);
    if (!wanted) return codegen::best_tier();
    for (codegen::Tier tier : codegen::kTiers)
      if (tier <= codegen::best_tier() && wanted == std::string(codegen::tier_name(tier))) return tier;
    throw UserError(ErrorCode::backend, "TENON_TIER=" + std::string(wanted) + " is not available; this CPU supports portable up to " +
                                            codegen::tier_name(codegen::best_tier()));
  }();
  return tier;
}

// tools/kernel_digest parses this output.
void show(const ir::loop::LoopKernel& kernel, codegen::Tier tier) {
  if (passes::debug_level() >= 4) std::cerr << "# kernel\n" + ir::loop::print(kernel);
  if (passes::debug_level() >= 5)
    std::cerr << "# assembly of " + kernel.name + "\n" + codegen::assembly(kernel, tier) + "# end of assembly\n";
}

// Cache of machine code by kernel text and tier. An entry lives as long as somebody uses the code.
class CodeCache {
 public:
  CodePointer get(const std::string& kernel_key, const ir::loop::LoopKernel& kernel, codegen::Tier tier) {
    std::string key = kernel_key + codegen::tier_name(tier);
    {
      std::lock_guard lock(mutex_);
      if (auto known = codes_.find(key); known != codes_.end())
        if (CodePointer code = known->second.lock()) return code;
    }
    ir::loop::verify(kernel);
    show(kernel, tier);
    CodePointer code = codegen::compile(kernel, tier);
    std::lock_guard lock(mutex_);
    std::erase_if(codes_, [](const auto& entry) { return entry.second.expired(); });
    codes_[key] = code;
    return code;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const codegen::MachineCode>> codes_;
};

CodeCache& code_cache() {
  static CodeCache* all = new CodeCache;
  return *all;
}

// A progress line on the terminal, shown after one second.
class Progress {
 public:
  Progress(size_t all, const char* what) : all_(all), what_(what), is_shown_(isatty(STDERR_FILENO)) {}
  ~Progress() {
    if (was_shown_) std::fprintf(stderr, "\n");
  }
  void step(size_t by = 1) {
    done_ += by;
    if (!is_shown_ || std::chrono::steady_clock::now() - start_ < std::chrono::seconds(1)) return;
    was_shown_ = true;
    std::fprintf(stderr, "\rtenon: %zu of %zu %s", done_, all_, what_);
  }

 private:
  size_t all_, done_ = 0;
  const char* what_;
  bool is_shown_, was_shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Compiles the kernels on all cores; they are independent of each other.
std::vector<CodePointer> compile_all(const std::vector<loops::Lowered>& lowered, const std::vector<std::string>& keys, codegen::Tier tier) {
  std::map<std::string, size_t> first;  // Index of the first kernel with each key.
  std::vector<size_t> work;
  for (size_t i = 0; i < keys.size(); ++i)
    if (first.emplace(keys[i], i).second) work.push_back(i);
  std::vector<CodePointer> out(keys.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  auto compile = [&] {
    try {
      for (size_t w; (w = next++) < work.size();) out[work[w]] = code_cache().get(keys[work[w]], lowered[work[w]].kernel, tier);
    } catch (...) {
      std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(work.size(), std::thread::hardware_concurrency()); ++i) threads.emplace_back(compile);
  compile();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  for (size_t i = 0; i < keys.size(); ++i) out[i] = out[first.at(keys[i])];
  return out;
}

size_t bytes_of(const ir::Graph& graph, ir::ValueId id) {
  const ir::TensorType& type = graph.values[id].type;
  auto bytes = static_cast<size_t>(ir::dtype_size(type.dtype));
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (type.strides[d] != 0) bytes *= static_cast<size_t>(type.sizes[d]);
  return bytes;
}

Explanation::Kernel describe(const ir::Graph& graph, const ir::Group& group) {
  Explanation::Kernel out{.sizes = group.sizes};
  for (size_t i : group.nodes) {
    out.ops.push_back(graph.nodes[i].op);
    ir::for_each_operand(graph.nodes[i], [&](ir::ValueId id) { out.bytes_apart += bytes_of(graph, id); });
    ir::for_each_definition(graph.nodes[i], [&](ir::ValueId id) { out.bytes_apart += bytes_of(graph, id); });
  }
  for (const auto* ids : {&group.inputs, &group.outputs})
    for (ir::ValueId id : *ids) out.bytes += bytes_of(graph, id);
  return out;
}

// The name of a library call: its op with several results, which does most of the work.
std::string name_of(const ir::Graph& call) {
  auto it = std::find_if(call.nodes.begin(), call.nodes.end(), [](const ir::Node& node) { return node.results.size() > 1; });
  return it == call.nodes.end() ? "other ops" : it->op;
}

// Whether all operands or all results of a node are tensors without elements.
bool is_empty(const ir::Graph& graph, const ir::Node& node) {
  bool reads = false, reads_some = false, makes_some = false;
  ir::for_each_operand(node, [&](ir::ValueId id) {
    reads = true;
    reads_some |= ops::has_elements(graph.values[id].type);
  });
  ir::for_each_definition(node, [&](ir::ValueId id) { makes_some |= ops::has_elements(graph.values[id].type); });
  return !makes_some || (reads && !reads_some);
}

std::vector<Explanation::Call> find_aten_calls(const ir::Graph& fused) {
  std::vector<Explanation::Call> out;
  for (const ir::Node& node : fused.nodes) {
    if (ir::is_fused(node) || ir::is_view(fused, node)) continue;
    std::string why = ops::has_entry(node.op) ? "no native kernel for these types or sizes" : "no native kernel";
    if (is_empty(fused, node)) why = "no elements";
    if (node.op == "aten::cat") why = "ATen's copy is as fast";
    auto known = std::find_if(out.begin(), out.end(), [&](const Explanation::Call& call) { return call.op == node.op && call.why == why; });
    if (known == out.end()) known = out.insert(out.end(), {node.op, 0, why});
    ++known->count;
  }
  return out;
}

// Marks results that are written back to an input of the graph as writes of that input. The planner decides whether the kernel
// writes them in place.
void mark_writes(Native& native) {
  std::set<std::pair<ir::ValueId, ir::ValueId>> write_backs;  // Pairs of an input and the value written back to it.
  for (const ir::WriteBack& write : native.graph.write_backs) write_backs.emplace(write.input, write.value);
  for (ir::Node& node : native.graph.nodes) {
    if (!ir::is_fused(node)) continue;
    for (auto [after, before] : native.may_share[ir::group_of(node)]) {
      bool is_wanted = write_backs.count({before, after}) > 0;
      bool is_free = std::none_of(node.writes.begin(), node.writes.end(),
                                  [&](const ir::Node::Write& w) { return w.before == before || w.after == after; });
      if (!is_wanted || !is_free || native.graph.values[before].type != native.graph.values[after].type) continue;
      auto at = std::find(node.args.begin(), node.args.end(), ir::Argument(before));
      node.writes.push_back({static_cast<int32_t>(at - node.args.begin()), 0, before, after});
    }
  }
}

// Runs the ops of a group one by one in ATen.
runtime::KernelStep::Ops by_aten(const ir::Graph& graph, const ir::Group& group) {
  return [ops = interpret(ir::subgraph(graph, group))](std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) {
    return ops->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  };
}

// The versions of a kernel that the tuner chooses from: the default number of threads, another number of threads, narrower vectors.
std::vector<runtime::KernelCode> codes_of(const loops::Lowered& lowered, const CodePointer& code, const CodePointer& narrow) {
  int64_t shared = std::max<int64_t>(1, grain() * lowered.iterations / std::max<int64_t>(1, lowered.elements)), whole = lowered.iterations;
  std::vector<runtime::KernelCode> codes = {{"", code->run, code, shared}};
  if (!narrow) return codes;
  int64_t other = whole > shared ? whole : std::max<int64_t>(1, whole / 2);
  codes.push_back({whole > shared ? "on one thread" : "on two threads", code->run, code, other});
  codes.push_back({"256 bits", narrow->run, narrow, shared});
  return codes;
}

runtime::KernelStep make_step(const ir::Graph& graph, const ir::Group& group, const loops::Lowered& lowered,
                              std::vector<runtime::KernelCode> codes) {
  runtime::KernelStep step{.codes = std::move(codes), .sizes = lowered.sizes, .iterations = lowered.iterations};
  for (const loops::KernelScalar& number : lowered.scalars) step.scalars.emplace_back(number.scalar, number.known);
  for (const ir::IndexRange& range : group.index_ranges) {
    auto input = std::find(group.inputs.begin(), group.inputs.end(), range.index) - group.inputs.begin();
    step.ranges.push_back({static_cast<size_t>(input), range.extent, range.exempt});
  }
  if (!step.ranges.empty()) step.by_aten = by_aten(graph, group);
  return step;
}

// Whether a node writes its results to given buffers: kernels, and ops with an `out=` overload.
bool takes_buffers(const Native& native, const ir::Node& node) {
  if (ir::is_fused(node)) return !native.kernels[ir::group_of(node)].call && !native.kernels[ir::group_of(node)].convolution;
  const ops::Facts* facts = ops::find(node.op);
  return facts && facts->has_out;
}

std::vector<std::pair<ir::ValueId, ir::ValueId>> may_share(const Native& native, const ir::Node& node) {
  if (!ir::is_fused(node)) return {};
  return native.may_share[ir::group_of(node)];
}

// TENON_CHECK_KERNELS, set by tests, compares every run of every kernel with ATen.
bool checks_all() {
  static const bool wanted = is_set(Flag::check_kernels);
  return wanted;
}

bool is_all_true(const at::Tensor& flags) {
  at::Tensor all = flags.contiguous();
  const float* at = all.const_data_ptr<float>();
  return std::find(at, at + all.numel(), 0.0f) == at + all.numel();
}

runtime::KernelStep make_convolution(const ir::Graph& graph, const ir::Group& group) {
  runtime::KernelStep step;
  step.convolution = std::make_shared<const runtime::ConvolutionStep>(*group.convolution);
  step.by_aten = by_aten(graph, group);
  return step;
}

runtime::KernelStep make_product(const ir::Graph& graph, const ir::Group& group) {
  runtime::KernelStep step;
  step.product = std::make_shared<const runtime::ProductStep>(group.product->gelu);
  if (!group.product->gelu.empty()) step.by_aten = by_aten(graph, group);
  return step;
}

runtime::KernelStep make_call(const ir::Graph& graph, const ir::Group& group) {
  runtime::KernelStep step;
  Native fused = make_native(*group.call, {}, std::make_shared<Quarantine>());
  step.call = [call = interpret(fused, {}, /*keeps_memory=*/false), ops = interpret(ir::subgraph(graph, group)),
               outputs = group.outputs.size(), name = name_of(*group.call)](std::vector<at::Tensor> inputs, c10::ArrayRef<double> scalars) {
    try {
      std::vector<at::Tensor> results = call->run(inputs, runtime::RunMode::kernels, scalars);
      if (results.size() == outputs || is_all_true(results.back())) {
        results.resize(outputs);
        return results;
      }
    } catch (const std::exception& error) {  // The user sees the error of the program's own ops, if they fail too.
      std::vector<at::Tensor> results = ops->run(std::move(inputs), runtime::RunMode::kernels, scalars);
      if (checks_all()) throw InternalError(std::string("a pattern fails although its ops do not: ") + error.what());
      ++counters().internal_errors;
      warn_once("pattern " + name, "a group of ops fused into one call of " + name +
                                       " fails although the ops themselves do not, so the ops run one by one: " + error.what() +
                                       ". This is a bug in Tenon: please report it. Set TENON_SKIP_PASS=fuse to avoid it.");
      return results;
    }
    return ops->run(std::move(inputs), runtime::RunMode::kernels, scalars);
  };
  return step;
}

bool is_kernel(const ir::Group& group) { return !group.call && !group.product && !group.convolution; }

}  // namespace

Native make_native(const ir::Graph& original, const NativeOptions& options, std::shared_ptr<Quarantine> quarantine) {
  bool check_all = checks_all();
  ir::Graph graph = options.keeps_weights && !passes::is_skipped("fuse") ? passes::prefer_channels_last(original) : original;
  std::vector<ir::Group> groups = passes::find_groups(graph, passes::is_skipped("fuse"), options.keeps_weights);
  std::vector<loops::Lowered> lowered;  // One per group that becomes a kernel; these groups come first.
  for (size_t g = 0; g < groups.size() && is_kernel(groups[g]); ++g)
    lowered.push_back(loops::lower(graph, groups[g], graph.name + "_" + std::to_string(g)));
  std::vector<std::string> keys;
  for (const loops::Lowered& l : lowered) keys.push_back(ir::loop::key(l.kernel));
  std::vector<CodePointer> codes = compile_all(lowered, keys, chosen_tier()), narrow(codes.size());
  if (options.for_autotuning && chosen_tier() > codegen::Tier::avx2) narrow = compile_all(lowered, keys, codegen::Tier::avx2);
  Native native;
  for (size_t g = 0; g < groups.size(); ++g) {
    bool is_call = g >= lowered.size();
    runtime::KernelStep step = groups[g].product       ? make_product(graph, groups[g])
                               : groups[g].convolution ? make_convolution(graph, groups[g])
                               : is_call               ? make_call(graph, groups[g])
                                                       : make_step(graph, groups[g], lowered[g], codes_of(lowered[g], codes[g], narrow[g]));
    if (check_all || options.verify > 0) {
      auto check = std::make_shared<const KernelCheck>(graph, groups[g], check_all ? 1 : options.verify, check_all, step, quarantine);
      step.check = [check](auto inputs, auto outputs, auto scalars) { (*check)(inputs, outputs, scalars); };
    }
    native.kernels.push_back(std::move(step));
    native.notes.push_back(describe(graph, groups[g]));
    if (groups[g].product || groups[g].convolution) native.notes.back().call = native.notes.back().ops[0];
    else if (is_call) native.notes.back().call = name_of(*groups[g].call);
    else native.notes.back().text = ir::loop::named(keys[g], lowered[g].kernel.name);
    native.notes.back().name = graph.name + "_" + std::to_string(g);
    auto& pairs = native.may_share.emplace_back();
    if (is_call) continue;
    for (auto [output, input] : lowered[g].may_share)
      pairs.emplace_back(lowered[g].buffers[static_cast<size_t>(output)], lowered[g].buffers[static_cast<size_t>(input)]);
  }
  native.graph = passes::gather_products(passes::fuse(graph, groups), groups);
  mark_writes(native);
  native.aten_calls = find_aten_calls(native.graph);
  return native;
}

std::shared_ptr<const runtime::Interpreter> interpret(Native& native, const std::vector<c10::IValue>& resources, bool keeps_memory) {
  ir::Reuse reuse = planner::plan_reuse(native.graph);
  ir::Arena arena;
  if (!passes::is_skipped("arena"))
    arena = planner::plan_arena(
        native.graph, reuse,
        {[&](const ir::Node& node) { return takes_buffers(native, node); }, [&](const ir::Node& node) { return may_share(native, node); }});
  return std::make_shared<const runtime::Interpreter>(std::move(native.graph), std::move(reuse), resources, capture::keys_above_backends(),
                                                      std::move(native.kernels), std::move(arena), keeps_memory);
}

void tune(const runtime::Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars, double seconds) {
  Progress progress(100, "% of max_autotune's trials");
  size_t shown = 0;
  runtime::tune(interpreter, inputs, scalars, seconds, [&](double done) {
    auto percent = static_cast<size_t>(100 * done);
    progress.step(percent - std::exchange(shown, percent));
  });
}

std::string llvm_text(const std::string& kernel) { return codegen::llvm_text(ir::loop::parse_kernel(kernel), chosen_tier()); }
std::string assembly(const std::string& kernel) { return codegen::assembly(ir::loop::parse_kernel(kernel), chosen_tier()); }
bool has_native() { return true; }
#else
Native make_native(const ir::Graph&, const NativeOptions&, std::shared_ptr<Quarantine>) {
  throw InternalError("this build has no code generation; configure it with TENON_NATIVE=ON");
}
std::shared_ptr<const runtime::Interpreter> interpret(Native&, const std::vector<c10::IValue>&, bool) { return nullptr; }
void tune(const runtime::Interpreter&, const std::vector<at::Tensor>&, c10::ArrayRef<double>, double) {}
std::string llvm_text(const std::string&) { return ""; }
std::string assembly(const std::string&) { return ""; }
bool has_native() { return false; }
#endif

}  // namespace tenon::driver
