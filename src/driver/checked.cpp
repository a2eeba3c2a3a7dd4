#include "driver/checked.h"

#include <algorithm>
#include <chrono>

#include "base/process.h"
#include "base/warn.h"
#include "bridge/convert.h"
#include "capture/dispatch_state.h"
#include "capture/prepare.h"
#include "capture/tensors.h"
#include "driver/compile_notice.h"
#include "driver/scopes.h"
#include "ir/graph/print.h"
#include "tenon/control.h"

namespace tenon::driver {
namespace {

// Limit on the graphs of one op range. Each set of storages that outlive the range needs a graph of its own. Bounds memory; not measured.
constexpr size_t kMaxPlansPerRange = 8;

capture::Geometry geometry_of(const ir::FixedType& type) {
  capture::Geometry g;
  g.dtype = bridge::from_dtype(type.dtype);
  g.offset = type.offset;
  g.sizes.assign(type.sizes.begin(), type.sizes.end());
  g.strides.assign(type.strides.begin(), type.strides.end());
  return g;
}

// The result of the op that made a storage.
capture::TensorRef first_tensor_of(const capture::Tape& tape, int32_t storage) {
  for (const capture::TapeResult& result : tape.ops[tape.storages[storage].made_by].results)
    for (const capture::TensorRef& ref : result.items)
      if (ref.storage == storage) return ref;
  return {};
}

// A storage that holds the tensor with the strides and offset of the geometry; copies the tensor if it has others.
c10::Storage storage_in_layout(const at::Tensor& tensor, const capture::Geometry& g) {
  if (tensor.strides() == c10::IntArrayRef(g.strides) && tensor.storage_offset() == g.offset) return tensor.storage();
  at::Tensor copy = bridge::empty_of(capture::to_type(g));
  copy.copy_(tensor);
  return copy.storage();
}

}  // namespace

void CheckedCalls::call(const detail::Leaves& in, const std::function<detail::RecordedResult()>& body) {
  auto names = [&](capture::Recorder& recorder) {
    for (size_t i = 0; i < in.tensors.size(); ++i)
      recorder.name(*in.tensors[i], capture::External::Kind::argument, static_cast<int32_t>(i), "argument " + std::to_string(i));
    detail::WatchedState parts;
    for (const Watched& watched : options_.watch) watched.list(parts);
    for (auto& [name, tensor] : parts.tensors) recorder.name(tensor, capture::External::Kind::state, 0, name);
  };
  capture::prepare_process();
  if (!capture::addresses_are_available()) {
    warn_once(
        "no addresses",
        "the process has no address space left (RLIMIT_AS), so calls under Trust::checked run eagerly. Raise the limit (ulimit -v), or "
        "compile with Trust::pure.");
    note_plain();
    body();
    return;
  }
  auto start = std::chrono::steady_clock::now();
  // Calls are compared as the user's C++ made them if grad mode is off, since there is no autograd history to follow.
  bool grad_mode = at::GradMode::is_enabled();
  auto streams = streams_[grad_mode].list();
  capture::RecordOptions record{.fullgraph = options_.fullgraph,
                                .may_record = may_record(),
                                .may_derive = options_.dynamic != Dynamic::no && stance() == Stance::compile,
                                .record_calls = !grad_mode && !capture::forward_mode_is_active(),
                                .is_backward = are_backwards_,
                                .first_node = capture::nodes_made()};
  if (stance() != Stance::compile) {
    record.may_record = stance() == Stance::fail_on_recompile && streams->empty();
    record.may_not_depart = stance() == Stance::fail_on_recompile;
    if (streams->empty() && !record.may_record) {
      note_plain();
      body();
      return;
    }
  }
  CallKind kind{grad_mode, constant_sizes(in)};
  auto run = [&](const capture::OpRange& range, capture::CallMemory& memory) { return run_region(kind, range, memory); };
  auto replayer = std::make_shared<capture::Replayer>(streams, record, run, names);
  capture::RegisteredReplay registered(replayer);
  replayer->observe_arguments(in.tensors);
  try {
    PlainTorchScript plain;
    capture::ListenScope listen(replayer.get(), grad_mode ? capture::Level::inner : capture::Level::both);
    body();
  } catch (...) {
    replayer->finish();  // The error of a deferred op that fails here replaces this one, since the op came before.
    throw;
  }
  replayer->finish();
  learn(grad_mode, *replayer, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  internal_errors_.raise();
}

std::vector<int64_t> CheckedCalls::constant_sizes(const detail::Leaves& in) const {
  std::vector<int64_t> out;
  for (size_t argument : options_.specialise) {
    const at::Tensor& tensor = *in.tensors[argument];
    out.push_back(tensor.defined() ? tensor.dim() : -1);
    if (tensor.defined()) out.insert(out.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  return out;
}

bool CheckedCalls::may_record() const { return streams_[0].recorded() + streams_[1].recorded() < options_.recompile_limit; }

void CheckedCalls::note_plain() {
  ForkSafeLock lock(mutex_);
  ++counts_.calls, ++counts_.plain;
  ++process_.calls, ++process_.plain;
}

void CheckedCalls::learn(bool grad_mode, capture::Replayer& replayer, double seconds) {
  ForkSafeLock lock(mutex_);
  ++counts_.calls;
  ++process_.calls;
  process_.flushes += replayer.counts().flushes;
  counts_.backwards.whole += are_backwards_ && replayer.counts().backwards > 0;
  if (auto stream = replayer.followed()) {
    bool by_graphs = replayer.counts().op_by_op == 0;
    ++(by_graphs ? counts_.answered : counts_.replayed);
    ++(by_graphs ? process_.served : process_.replayed);
    streams_[grad_mode].prefer(*stream);
    return;
  }
  capture::Recorder* recorder = replayer.recorder();
  if (!recorder && replayer.derived()) {
    bool by_graphs = replayer.counts().op_by_op == 0;
    ++(by_graphs ? counts_.answered : counts_.replayed);
    ++(by_graphs ? process_.served : process_.replayed);
    streams_[grad_mode].add(std::move(replayer.derived()->tape), replayer.parent(), replayer.shared(), replayer.alike(), /*derived=*/true);
    forget_plans(grad_mode);
    return;
  }
  if (!recorder) {
    ++counts_.plain;
    ++process_.plain;
    if (stance() == Stance::compile && !may_record()) recompiles_.warn_of_limit(options_, "replay", replayer.difference());
    return;
  }
  ++counts_.recorded;
  ++process_.recorded;
  phases_.seconds[static_cast<size_t>(build::Phase::record)] += seconds;
  for (const capture::BreakEvent& event : recorder->tape().breaks)
    if (event.before_op >= replayer.shared()) breaks_.note(event);
  if (!replayer.difference().empty()) recompiles_.note("replay", replayer.difference(), replayer.difference_frames());
  counts_.program_ops = recorder->tape().ops.size();
  if (!recorder->tape().is_replayable) {
    const char* text = "its arguments are parts of one storage, in another order than when it was recorded";
    if (std::find(counts_.obstacles.begin(), counts_.obstacles.end(), text) == counts_.obstacles.end()) counts_.obstacles.push_back(text);
    return;
  }
  streams_[grad_mode].add(std::move(recorder->tape()), replayer.parent(), replayer.shared(), replayer.alike());
}

// Drops the plans of streams that are not kept any more.
void CheckedCalls::forget_plans(bool grad_mode) {
  auto streams = streams_[grad_mode].list();
  std::erase_if(plans_, [&](const auto& entry) {
    size_t stream_id = std::get<1>(entry.first);
    return std::get<0>(entry.first) == grad_mode &&
           std::none_of(streams->begin(), streams->end(), [&](const auto& stream) { return stream->id == stream_id; });
  });
}

std::shared_ptr<CheckedCalls::Plan> CheckedCalls::find_plan(const CallKind& call, const capture::OpRange& range) {
  ForkSafeLock lock(mutex_);
  // The stream is being derived: it is used once, and a stream of these sizes is added when the call has ended.
  if (range.stream.id == capture::Stream::kNoId) {
    auto plan = std::make_shared<Plan>();
    plan->live = range.live;
    build_plan(*plan, range, call, /*may_specialise=*/false);
    if (!plan->found.executable) return nullptr;
    plan->found.graph->note_run(plan->found.executable);
    return plan;
  }
  auto& plans = plans_[{call.grad_mode, range.stream.id, range.begin, range.end}];
  auto it = std::find_if(plans.begin(), plans.end(), [&](const auto& plan) { return plan->live == range.live; });
  if (it == plans.end() && plans.size() >= kMaxPlansPerRange) return nullptr;
  if (it == plans.end()) {
    auto plan = std::make_shared<Plan>();
    plan->live = range.live;
    plans.push_back(plan);
    it = plans.end() - 1;
  }
  Plan& plan = **it;
  // A graph is built when its ops are flushed for the second time. The call that derived a stream was the first one.
  bool is_second = ++plan.times_seen >= 2 || range.stream.derived;
  if (is_second && !plan.found.executable && !plan.is_unbuildable) build_plan(plan, range, call, /*may_specialise=*/true);
  if (!plan.found.executable) return nullptr;
  plan.found.graph->note_run(plan.found.executable);
  return *it;
}

void CheckedCalls::build_plan(Plan& plan, const capture::OpRange& range, const CallKind& call, bool may_specialise) {
  const capture::Tape& tape = range.stream.tape;
  CompileNotice notice(options_, range.end - range.begin);
  plan.is_unbuildable = true;  // Reset if there is an executable.
  capture::ProgramResults results;
  for (int32_t storage : range.live) {
    results.refs.push_back(first_tensor_of(tape, storage));
    plan.outputs.push_back(results.refs.back().geometry);
  }
  try {
    capture::TapeRange ops{.begin = range.begin, .end = range.end, .by_storage = true};
    plan.functional = phases_.time(build::Phase::functionalize, [&] { return build::functional_graph(tape, ops, results, options_.name); });
    for (const std::string& text : plan.functional.obstacles)
      if (std::find(counts_.obstacles.begin(), counts_.obstacles.end(), text) == counts_.obstacles.end()) counts_.obstacles.push_back(text);
    if (!plan.functional.obstacles.empty()) return;
    const ir::Graph& graph = plan.functional.graph;
    GraphFamily& family = families_[{call.grad_mode, range.stream.root, range.begin, range.end, range.live, call.constant_sizes}];
    // The recording may have other sizes where they stay constants.
    if (options_.dynamic == Dynamic::yes && options_.specialise.empty() && family.is_empty())
      remember_recording(family, range, call.grad_mode);
    plan.found = family.find(plan.functional, may_specialise, {options_, /*keeps_weights=*/!call.grad_mode, phases_, recompiles_});
    if (!plan.found.executable) return;
    for (const ir::Input& input : graph.inputs) plan.inputs.push_back(geometry_of(graph.values[input.value].type.fixed()));
    plan.functional.graph = {};  // The executable has what it needs of it.
    plan.is_unbuildable = false;
  } catch (const std::exception& error) {
    counts_.obstacles.push_back(internal_errors_.note(error));
  }
}

// Adds the graph of the recorded sizes, so that the first new size has one to be generalised with.
void CheckedCalls::remember_recording(GraphFamily& family, const capture::OpRange& range, bool grad_mode) {
  auto streams = streams_[grad_mode].list();
  auto root = std::find_if(streams->begin(), streams->end(), [&](const auto& stream) { return stream->id == range.stream.root; });
  if (root == streams->end() || (*root)->tape.ops.size() < range.end) return;
  capture::ProgramResults results;
  for (int32_t storage : range.live) results.refs.push_back(first_tensor_of((*root)->tape, storage));
  capture::TapeRange ops{.begin = range.begin, .end = range.end, .by_storage = true};
  capture::Functional functional = build::functional_graph((*root)->tape, ops, results, options_.name);
  if (functional.obstacles.empty() && functional.resources.empty()) family.remember(functional.graph);
}

bool CheckedCalls::run_region(const CallKind& call, const capture::OpRange& range, capture::CallMemory& memory) {
  std::shared_ptr<Plan> plan = find_plan(call, range);
  if (!plan) return false;
  std::vector<double> scalars;
  for (int32_t id : plan->functional.scalars) scalars.push_back(memory.scalars[id]);
  for (const capture::InputBinding& binding : plan->functional.inputs)
    if (binding.whole_storage && memory.is_shifted(binding.storage)) return false;
  c10::SmallVector<at::Tensor, 4> outputs;
  if (const runtime::FlatPlan* flat = plan->found.executable->flat()) {
    c10::SmallVector<runtime::FlatPlan::InputBuffer, 16> inputs;
    for (size_t i = 0; i < plan->inputs.size(); ++i) {
      auto [begin, owner] = memory.address(plan->functional.inputs[i].storage);
      inputs.push_back({begin + plan->inputs[i].offset * static_cast<int64_t>(c10::elementSize(plan->inputs[i].dtype)), owner});
    }
    outputs = flat->run(inputs, scalars.empty() ? c10::ArrayRef<double>(plan->found.executable->graph().scalars) : scalars,
                        /*keeps_results=*/false);
  } else {
    std::vector<at::Tensor> inputs;
    for (size_t i = 0; i < plan->inputs.size(); ++i) inputs.push_back(memory.tensor(plan->functional.inputs[i].storage, plan->inputs[i]));
    memory.release_owned();  // The graph drops each input after its last use.
    auto results = plan->found.executable->run(std::move(inputs), runtime::RunMode::kernels, scalars);
    outputs.assign(std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  }
  for (size_t i = 0; i < plan->live.size(); ++i) {
    const capture::ResultBinding& result = plan->functional.results[i];
    memory.set(plan->live[i], storage_in_layout(outputs[result.index], plan->outputs[i]));
  }
  return true;
}

void CheckedCalls::reset() {
  std::lock_guard lock(mutex_);
  for (capture::Streams& streams : streams_) streams.clear();
  plans_.clear();
  families_.clear();
}

void CheckedCalls::explain(Explanation& out) {
  std::unique_lock lock(mutex_);
  out.calls += counts_.calls;
  out.answered += counts_.answered;
  out.replayed += counts_.replayed;
  out.recorded += counts_.recorded;
  out.plain += counts_.plain;
  out.backwards.whole += counts_.backwards.whole;
  if (counts_.program_ops > 0) out.program_ops = counts_.program_ops;
  out.obstacles.insert(out.obstacles.end(), counts_.obstacles.begin(), counts_.obstacles.end());
  for (auto& [key, family] : families_)
    for (const auto& graph : family.graphs()) {
      if (graph->executables.empty()) continue;
      const build::Executable& executable = *graph->executables.front().executable;
      if (!executable.quarantine().empty()) out.obstacles.push_back(executable.quarantine());
      auto [grad_mode, stream, begin, end, live, constant_sizes] = key;
      Explanation::Graph& shown = out.graphs.emplace_back();
      shown.text = ir::print(executable.graph());
      shown.served_as = "ops " + std::to_string(begin) + " to " + std::to_string(end) + " of stream " + std::to_string(stream) +
                        (grad_mode ? "" : ", grad mode off");
      shown.ops = executable.graph().nodes.size();
      shown.calls = graph->runs;
      shown.kernels = executable.kernels();
      shown.aten_calls = executable.aten_calls();
      shown.arena_bytes = executable.arena_bytes();
      const ir::SymbolValues& symbols = graph->graph.symbols;
      for (size_t s = 0; s < symbols.size(); ++s) shown.symbols.push_back("s" + std::to_string(s) + " = " + std::to_string(symbols[s]));
      for (const ir::Condition& c : graph->built->conditions()) shown.conditions.push_back(c.text() + " (" + c.origin + ")");
    }
  for (size_t i = 0; i < phases_.seconds.size(); ++i) out.phases[i].second += phases_.seconds[i];
  Breaks breaks = breaks_;
  Recompiles recompiles = recompiles_;
  lock.unlock();  // Looking up source lines is slow, and calls need the lock.
  std::vector<Explanation::Break> listed_breaks = breaks.list();
  out.breaks.insert(out.breaks.end(), listed_breaks.begin(), listed_breaks.end());
  std::vector<Explanation::Recompile> listed = recompiles.list();
  out.recompiles.insert(out.recompiles.end(), listed.begin(), listed.end());
}

}  // namespace tenon::driver
