// libtenon_probe.so: LD_PRELOAD=libtenon_probe.so ./any_libtorch_program. Listens to the program's
// ops, changes nothing, and prints at the end what compiling it would bring.
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

using Clock = std::chrono::steady_clock;
using capture::Stack;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct OpFacts {
  std::string name;
  uint32_t number = 0;
  Kind kind = Kind::other;
  bool composite = false, reads_host = false;
};

Kind kind_of(const c10::OperatorHandle& op, const std::string& name) {
  if (op.hasTag(at::Tag::pointwise)) return Kind::fusable;
  for (const char* part : {"softmax", "layer_norm", "::sum", "::mean", "::var", "::amax", "::cat", "::copy_", "::_to_copy", "::clone",
                           "::masked_fill", "::fill_", "::zero_"})
    if (name.find(part) != std::string::npos) return Kind::fusable;
  for (const char* part : {"mm", "conv", "attention", "linear", "lstm", "gru", "dot"})
    if (name.find(part) != std::string::npos) return Kind::library;
  for (const auto& result : op.schema().returns())
    if (result.alias_info() && !result.alias_info()->isWrite()) return Kind::view;
  return Kind::other;
}

class Probe : public capture::Listener {
 public:
  void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override {
    ++report_.calls;
    auto start = Clock::now();
    capture::outer_run(op, keys, stack);
    report_.call_seconds += since(start);
  }

  void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) override {
    const OpFacts& facts = facts_of(op);
    if (facts.composite) return capture::inner_decompose(op, keys, stack);
    ++report_.ops;
    if (sequence_.size() < kLongest) sequence_.push_back(facts.number);
    if (facts.reads_host) note_read(facts);
    bool goes_on = facts.kind != Kind::fusable || continues_chain(op, *stack);
    if (!goes_on || facts.kind == Kind::library || facts.kind == Kind::other) end_chain();
    auto start = Clock::now();
    capture::inner_run(op, keys, stack);
    double seconds = since(start);
    report_.seconds[facts.kind] += seconds;
    auto& [count, sum] = report_.by_op[facts.name];
    ++count;
    sum += seconds;
    if (facts.kind == Kind::fusable) add_to_chain(op, *stack, seconds);
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
  static constexpr size_t kLongest = 1'000'000;

  const OpFacts& facts_of(const c10::OperatorHandle& op) {
    auto [it, fresh] = facts_.try_emplace(&op.schema());
    if (!fresh) return it->second;
    OpFacts& facts = it->second;
    facts.name = capture::op_name(op);
    facts.number = static_cast<uint32_t>(facts_.size());
    facts.kind = kind_of(op, facts.name);
    facts.composite = capture::is_composite(op);
    const ops::Facts* row = ops::find(facts.name);
    facts.reads_host = row && row->breaks && facts.name != "aten::index.Tensor";
    return facts;
  }

  void note_read(const OpFacts& facts) {
    std::vector<void*> frames = capture::return_addresses();
    auto& [read, kept] = reads_[frames];
    read.op = facts.name;
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

  Clock::time_point start_ = Clock::now();
  Report report_;
  std::unordered_map<const void*, OpFacts> facts_;
  std::map<std::vector<void*>, std::pair<HostRead, std::vector<void*>>> reads_;
  std::vector<uint32_t> sequence_;
  size_t chain_ops_ = 0;
  double chain_seconds_ = 0, slowest_ = 0;
  const void* last_ = nullptr;
};

// Listens on the thread that loads the library, from then on until the program exits.
struct Listening {
  Listening() { unsetenv("LD_PRELOAD"); }  // not for programs that this one starts
  Probe probe;
  capture::ListenScope scope{&probe};
};

std::unique_ptr<Listening> g_listening = std::make_unique<Listening>();

}  // namespace
}  // namespace tenon::probe
