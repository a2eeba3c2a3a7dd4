// libtenon_probe.so: LD_PRELOAD=libtenon_probe.so ./any_libtorch_program. Listens to the program's ops without changing
// them, and prints at exit what compiling the program would gain.
#include <ATen/core/enum_tag.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "capture/listener.h"
#include "capture/source.h"
#include "capture/tape.h"
#include "ops/table.h"
#include "probe/report.h"

namespace tenon::probe {
namespace {

using SteadyClock = std::chrono::steady_clock;
using capture::Stack;

double since(SteadyClock::time_point start) { return std::chrono::duration<double>(SteadyClock::now() - start).count(); }

struct ProbedOp {
  std::string name;
  uint32_t id = 0;
  OpCategory category = OpCategory::other;
  bool composite = false, reads_host = false;
};

OpCategory category_of(const c10::OperatorHandle& op, const std::string& name) {
  if (op.hasTag(at::Tag::pointwise)) return OpCategory::fusable;
  for (const char* name_fragment : {"softmax", "layer_norm", "::sum", "::mean", "::var", "::amax", "::cat", "::copy_", "::_to_copy",
                                    "::clone", "::masked_fill", "::fill_", "::zero_"})
    if (name.find(name_fragment) != std::string::npos) return OpCategory::fusable;
  for (const char* name_fragment : {"mm", "conv", "attention", "linear", "lstm", "gru", "dot"})
    if (name.find(name_fragment) != std::string::npos) return OpCategory::library;
  for (const auto& result : op.schema().returns())
    if (result.alias_info() && !result.alias_info()->isWrite()) return OpCategory::view;
  return OpCategory::other;
}

class Probe : public capture::Listener {
 public:
  void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override {
    ++report_.calls;
    auto start = SteadyClock::now();
    capture::outer_run(op, keys, stack);
    report_.call_seconds += since(start);
  }

  void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override {
    const ProbedOp& probed = probed_op(op);
    if (probed.composite) return capture::inner_decompose(op, keys, stack);
    ++report_.ops;
    if (sequence_.size() < kMaxSequenceOps) sequence_.push_back(probed.id);
    if (probed.reads_host) note_read(probed);
    bool joins_chain = probed.category != OpCategory::fusable || continues_chain(op, *stack);
    if (!joins_chain || probed.category == OpCategory::library || probed.category == OpCategory::other) end_chain();
    auto start = SteadyClock::now();
    capture::inner_run(op, keys, stack);
    double seconds = since(start);
    report_.seconds[probed.category] += seconds;
    auto& [count, sum] = report_.by_op[probed.name];
    ++count;
    sum += seconds;
    if (probed.category == OpCategory::fusable) add_to_chain(op, *stack, seconds);
  }

  ~Probe() override {
    end_chain();
    report_.wall_seconds = since(start_);
    report_.block = repeated_block(sequence_);
    for (auto& [frames, read] : reads_) {
      HostRead& known = report_.host_reads[capture::user_line(read.second)];
      known.op = read.first.op;
      known.count += read.first.count;
    }
    if (report_.calls > 0) std::fprintf(stderr, "%s", report_.text().c_str());
  }

 private:
  static constexpr size_t kMaxSequenceOps = 1'000'000;  // Safety limit of 4 MB of memory; not measured.

  const ProbedOp& probed_op(const c10::OperatorHandle& op) {
    auto [it, fresh] = ops_.try_emplace(&op.schema());
    if (!fresh) return it->second;
    ProbedOp& probed = it->second;
    probed.name = capture::op_name(op);
    probed.id = static_cast<uint32_t>(ops_.size());
    probed.category = category_of(op, probed.name);
    probed.composite = capture::is_composite(op);
    const ops::Facts* entry = ops::find(probed.name);
    probed.reads_host = entry && entry->breaks && probed.name != "aten::index.Tensor";
    return probed;
  }

  void note_read(const ProbedOp& probed) {
    std::vector<void*> frames = capture::return_addresses();
    auto& [read, kept] = reads_[frames];
    read.op = probed.name;
    ++read.count;
    if (kept.empty()) kept = frames;
  }

  template <class F>
  static void each_storage(const Stack& stack, size_t count, F&& f) {
    for (size_t i = stack.size() - count; i < stack.size(); ++i)
      if (stack[i].isTensor() && stack[i].toTensor().defined() && stack[i].toTensor().has_storage())
        f(stack[i].toTensor().storage().unsafeGetStorageImpl());
  }

  bool continues_chain(const c10::OperatorHandle& op, const Stack& stack) const {
    bool found = chain_ops_ == 0;
    each_storage(stack, op.schema().arguments().size(), [&](const void* storage) { found |= storage == last_; });
    return found;
  }

  void add_to_chain(const c10::OperatorHandle& op, const Stack& stack, double seconds) {
    ++chain_ops_;
    chain_seconds_ += seconds;
    slowest_ = std::max(slowest_, seconds);
    each_storage(stack, op.schema().returns().size(), [&](const void* storage) { last_ = storage; });
  }

  void end_chain() {
    if (chain_ops_ > 1) {
      ++report_.chains.count;
      report_.chains.ops += chain_ops_;
      report_.chains.seconds += chain_seconds_;
      report_.chains.longest_op_seconds += slowest_;
    }
    chain_ops_ = 0;
    chain_seconds_ = slowest_ = 0;
    last_ = nullptr;
  }

  SteadyClock::time_point start_ = SteadyClock::now();
  Report report_;
  std::unordered_map<const void*, ProbedOp> ops_;
  std::map<std::vector<void*>, std::pair<HostRead, std::vector<void*>>> reads_;
  std::vector<uint32_t> sequence_;
  size_t chain_ops_ = 0;
  double chain_seconds_ = 0, slowest_ = 0;
  const void* last_ = nullptr;
};

// Listens on the thread that loads the library, until the program exits.
struct Listening {
  Listening() { unsetenv("LD_PRELOAD"); }  // Child processes are not probed.
  Probe probe;
  capture::ListenScope scope{&probe};
};

std::unique_ptr<Listening> g_listening = std::make_unique<Listening>();

}  // namespace
}  // namespace tenon::probe
