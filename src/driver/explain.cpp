// explain: report on a compiled function as text, JSON and Graphviz.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "build/code_cache.h"
#include "build/pipeline.h"
#include "build/repeated_blocks.h"
#include "driver/region.h"
#include "ir/graph/dot.h"
#include "ir/graph/parse.h"
#include "ir/graph/print.h"

namespace tenon {
namespace driver {
namespace {

// Adds one graph per segment of a program that breaks split.
void add_segments(Recording& recording, const std::string& name, std::vector<Explanation::Graph>& out) {
  const capture::Tape& tape = recording.tape();
  std::vector<size_t> cuts = {0};
  for (const capture::BreakEvent& event : tape.breaks) {
    cuts.push_back(event.before_op);
    cuts.push_back(event.before_op + 1);
  }
  cuts.push_back(recording.forward.ops);
  size_t segment = 0;
  for (size_t i = 0; i + 1 < cuts.size(); i += 2) {
    if (cuts[i] >= cuts[i + 1]) continue;
    // The results of a segment are the tensors that later segments and the caller read.
    capture::ProgramResults results;
    auto add = [&](const capture::TensorRef& ref) {
      if (!ref.defined()) return;
      int32_t born = tape.storages[ref.storage].made_by;
      if (born < static_cast<int32_t>(cuts[i]) || born >= static_cast<int32_t>(cuts[i + 1])) return;
      if (std::find(results.refs.begin(), results.refs.end(), ref) == results.refs.end()) results.refs.push_back(ref);
    };
    for (size_t k = cuts[i + 1]; k < recording.forward.ops; ++k)
      for (const capture::TapeArgument& arg : tape.ops[k].args) {
        if (const auto* ref = std::get_if<capture::TensorRef>(&arg)) add(*ref);
        else if (const auto* list = std::get_if<capture::TensorListRef>(&arg))
          for (const auto& item : list->items) add(item);
      }
    for (const ResultInfo& info : recording.results) add(info.ref);
    auto functional = build::functional_graph(tape, {.begin = cuts[i], .end = cuts[i + 1], .by_storage = true}, results,
                                              name + "_segment" + std::to_string(segment));
    out.push_back({ir::print(functional.graph), "segment " + std::to_string(++segment) + " of a program split by breaks",
                   functional.graph.nodes.size(), 0});
  }
}

void add_kernels(const build::Executable& executable, Explanation::Graph& out) {
  auto kernels = executable.kernels();
  out.kernels.insert(out.kernels.end(), kernels.begin(), kernels.end());
  out.aten_calls.insert(out.aten_calls.end(), executable.aten_calls().begin(), executable.aten_calls().end());
  out.arena_bytes = std::max(out.arena_bytes, executable.arena_bytes());
}

void add_graphs(const Variant& variant, std::vector<Explanation::Graph>& out) {
  size_t calls = variant.served_calls.load();
  if (variant.joint) {
    const ir::Graph& joint = variant.joint->program.functional.graph;
    out.push_back({ir::print(joint), "forward and backward", joint.nodes.size(), calls});
  } else {
    const ir::Graph& graph = variant.forward.functional.graph;
    out.push_back({ir::print(graph), variant.recording->differentiates ? "whole step" : "forward", graph.nodes.size(), calls});
  }
  for (const capture::HostComparison& comparison : variant.recording->tape().comparisons)
    out.back().conditions.push_back(std::string("aten::equal gives ") + (comparison.value ? "true" : "false") +
                                    " (compared on every call)");
  for (const auto& executable : variant.executables()) add_kernels(*executable, out.back());
}

std::string reason_of(const std::string& guard) {
  if (guard == "replay") return "the call differed from the recording";
  if (guard == "condition") return "a graph does not serve this size";
  return "guard '" + guard + "' failed";
}

std::string megabytes(size_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(bytes < 10'000'000 ? 2 : 1) << static_cast<double>(bytes) * 1e-6 << " MB";
  return out.str();
}

void print_kernels(const Explanation::Graph& graph, std::ostream& out) {
  constexpr size_t kMaxKernelsShown = 12;
  if (graph.kernels.empty()) return;
  size_t ops = 0, bytes = 0, unfused_bytes = 0;
  std::map<std::string, size_t> replacements;
  for (const Explanation::Kernel& kernel : graph.kernels) {
    if (!kernel.call.empty()) ++replacements[kernel.call];
    ops += kernel.ops.size();
    bytes += kernel.bytes;
    unfused_bytes += kernel.bytes_apart;
  }
  out << "    kernels: " << graph.kernels.size() << " for " << ops << " ops; memory traffic " << megabytes(bytes) << " instead of "
      << megabytes(unfused_bytes) << "; arena " << megabytes(graph.arena_bytes) << "\n";
  for (size_t k = 0; k < graph.kernels.size() && k < kMaxKernelsShown; ++k) {
    const Explanation::Kernel& kernel = graph.kernels[k];
    out << "      " << kernel.name << " [";
    for (size_t d = 0; d < kernel.sizes.size(); ++d) out << (d ? ", " : "") << kernel.sizes[d];
    out << "]:";
    for (const std::string& op : kernel.ops) out << " " << op.substr(op.find("::") + 2);
    out << (kernel.call.empty() ? "" : "; computed as " + kernel.call) << "\n";
  }
  if (graph.kernels.size() > kMaxKernelsShown) out << "      and " << graph.kernels.size() - kMaxKernelsShown << " more\n";
  if (graph.blocks.copies > 0)
    out << "      repeated: " << graph.blocks.copies << " x " << graph.blocks.kernels << " kernels, from "
        << graph.kernels[graph.blocks.first].name << " on; equal kernels are compiled once\n";
  for (auto& [call, count] : replacements) out << "      computed as: " << count << " x " << call << "\n";
  for (const Explanation::Call& call : graph.aten_calls)
    out << "      runs in ATen: " << call.count << " x " << call.op << " (" << call.why << ")\n";
}

}  // namespace

}  // namespace driver

Explanation Region::explain() {
  std::unique_lock lock(mutex_);
  Explanation out = counts_;
  for (const auto& variant : *variants_) {
    driver::add_graphs(*variant, out.graphs);
    out.answered += variant->served_calls.load();
  }
  out.calls += out.answered;
  for (const auto& variant : *variants_)
    for (const auto& executable : variant->executables())
      if (!executable->quarantine().empty()) out.obstacles.push_back(executable->quarantine());
  if (variants_->empty() && !candidates_.empty()) {
    driver::add_segments(*candidates_.front(), options_.name, out.graphs);
    out.guards = candidates_.front()->guards.describe();
  } else if (!variants_->empty()) {
    out.guards = variants_->front()->guards.describe();
  }
  for (size_t i = 0; i < phases_.seconds.size(); ++i)
    out.phases.emplace_back(build::phase_name(static_cast<build::Phase>(i)), phases_.seconds[i]);
  driver::Breaks breaks = breaks_;
  driver::Recompiles recompiles = recompiles_;
  lock.unlock();  // Looking up source lines is slow, and calls need the lock.
  out.breaks = breaks.list();
  out.recompiles = recompiles.list();
  checked_.explain(out);
  backwards_->explain(out);
  for (Explanation::Graph& graph : out.graphs) graph.blocks = build::repeated_blocks(graph.kernels);
  return out;
}

std::string Explanation::Kernel::llvm() const { return text.empty() ? "" : build::llvm_text(text); }
std::string Explanation::Kernel::assembly() const { return text.empty() ? "" : build::assembly(text); }

std::string Explanation::text() const {
  std::ostringstream out;
  out << "tenon: " << name << ", backend " << backend << "\n";
  out << "  calls: " << calls << " (" << answered << " served by graphs, " << replayed << " replayed, " << recorded << " recorded, "
      << plain << " eager)\n";
  if (backwards.calls > 0)
    out << "  backward passes after the calls: " << backwards.calls << " (" << backwards.answered << " served by graphs, "
        << backwards.replayed << " replayed, " << backwards.recorded << " recorded, " << backwards.plain << " eager; " << backwards.whole
        << " without autograd's nodes)\n";
  out << "  ops per call: " << program_ops << "\n";
  for (size_t i = 0; i < graphs.size(); ++i) {
    out << "  graph " << i << ": " << graphs[i].ops << " ops, " << graphs[i].served_as << ", served " << graphs[i].calls << " calls\n";
    for (const std::string& symbol : graphs[i].symbols) out << "    size that may differ: " << symbol << "\n";
    for (const std::string& condition : graphs[i].conditions) out << "    serves calls with " << condition << "\n";
    driver::print_kernels(graphs[i], out);
  }
  out << "  breaks: " << breaks.size() << "\n";
  for (const Break& b : breaks)
    out << "    " << b.op << " " << b.what << " at " << b.where << " (" << b.count << " times); " << b.instead << "\n";
  if (!guards.empty()) out << "  guards:\n";
  for (const std::string& guard : guards) out << "    " << guard << "\n";
  out << "  recompiles: " << recompiles.size() << "\n";
  for (size_t i = 0; i < recompiles.size() && i < 8; ++i)
    out << "    recompiled because " << driver::reason_of(recompiles[i].guard) << ": " << recompiles[i].detail << ", at "
        << recompiles[i].where << "\n";
  if (recompiles.size() > 8) out << "    and " << recompiles.size() - 8 << " more\n";
  if (!obstacles.empty()) out << "  ran eagerly because:\n";
  for (const std::string& obstacle : obstacles) out << "    " << obstacle << "\n";
  out << "  compile time:";
  for (const auto& [phase, seconds] : phases) out << " " << phase << " " << std::fixed << std::setprecision(2) << seconds * 1e3 << " ms";
  out << "\n";
  return out.str();
}

std::string Explanation::json() const {
  nlohmann::ordered_json j;
  j["name"] = name;
  j["backend"] = backend;
  j["calls"] = calls;
  j["answered"] = answered;
  j["replayed"] = replayed;
  j["recorded"] = recorded;
  j["plain"] = plain;
  j["backwards"] = {{"calls", backwards.calls},       {"answered", backwards.answered}, {"replayed", backwards.replayed},
                    {"recorded", backwards.recorded}, {"plain", backwards.plain},       {"whole", backwards.whole}};
  j["program_ops"] = program_ops;
  j["graphs"] = nlohmann::ordered_json::array();
  for (const Graph& g : graphs) {
    nlohmann::ordered_json graph = {
        {"served_as", g.served_as}, {"ops", g.ops}, {"calls", g.calls}, {"arena_bytes", g.arena_bytes}, {"text", g.text}};
    for (const Kernel& k : g.kernels)
      graph["kernels"].push_back({{"name", k.name},
                                  {"ops", k.ops},
                                  {"sizes", k.sizes},
                                  {"bytes", k.bytes},
                                  {"bytes_apart", k.bytes_apart},
                                  {"text", k.text},
                                  {"call", k.call}});
    if (g.blocks.copies > 0) graph["blocks"] = {{"first", g.blocks.first}, {"kernels", g.blocks.kernels}, {"copies", g.blocks.copies}};
    for (const Call& c : g.aten_calls) graph["left"].push_back({{"op", c.op}, {"count", c.count}, {"why", c.why}});
    if (!g.symbols.empty()) graph["symbols"] = g.symbols;
    if (!g.conditions.empty()) graph["conditions"] = g.conditions;
    j["graphs"].push_back(std::move(graph));
  }
  j["breaks"] = nlohmann::ordered_json::array();
  for (const Break& b : breaks)
    j["breaks"].push_back({{"op", b.op}, {"what", b.what}, {"where", b.where}, {"instead", b.instead}, {"count", b.count}});
  j["guards"] = guards;
  j["recompiles"] = nlohmann::ordered_json::array();
  for (const Recompile& r : recompiles) j["recompiles"].push_back({{"guard", r.guard}, {"detail", r.detail}, {"where", r.where}});
  j["obstacles"] = obstacles;
  for (const auto& [phase, seconds] : phases) j["seconds"][phase] = seconds;
  return j.dump(2);
}

std::string Explanation::dot(size_t graph) const { return graph < graphs.size() ? ir::dot(ir::parse(graphs[graph].text)) : ""; }

bool Explanation::svg(const std::string& path, size_t graph) const {
  std::string picture = dot(graph);
  if (picture.empty()) return false;
  std::string quoted = "'";
  for (char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  FILE* pipe = popen(("dot -Tsvg -o " + quoted + "' 2>/dev/null").c_str(), "w");
  if (!pipe) return false;
  bool written = std::fwrite(picture.data(), 1, picture.size(), pipe) == picture.size();
  return pclose(pipe) == 0 && written;
}

std::ostream& operator<<(std::ostream& out, const Explanation& explanation) { return out << explanation.text(); }

}  // namespace tenon
