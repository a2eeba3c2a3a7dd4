#include "driver/graph_family.h"

#include <algorithm>

#include "base/warn.h"
#include "capture/size_arguments.h"
#include "capture/source.h"
#include "ir/graph/generalise.h"

namespace tenon::driver {
namespace {

// Graphs of numbers that symbolic ones are found from. Two explain most programs; convolutions with strides need three.
constexpr size_t kMaxSamples = 4;
// Symbolic graphs of one op range: sizes 0 and 1, and conditions of the build, make different ones. Bounds memory; not measured.
constexpr size_t kMaxSymbolicGraphs = 8;
// Graphs of one op range that serve one set of sizes each; the oldest one is dropped. Bounds memory; not measured.
constexpr size_t kMaxSpecialGraphs = 32;
// Limits on the number of sizes for which one symbolic graph keeps its executable. Bounds memory; not measured.
constexpr size_t kMinExecutables = 4, kMaxExecutables = 64;

bool is_symbolic(const FamilyGraph& graph) { return !graph.graph.symbols.empty(); }

// The first condition that does not hold, and the sizes, for people: "s0 < 256 (fusion) does not hold for s0 = 300".
std::string failed_condition(const FamilyGraph& graph, const ir::SymbolValues& symbols) {
  std::string sizes;
  for (size_t s = 0; s < symbols.size(); ++s) sizes += (s ? ", s" : "s") + std::to_string(s) + " = " + std::to_string(symbols[s]);
  for (const ir::Condition& c : graph.built->conditions())
    if (!c.holds(symbols)) return c.text() + " (" + c.origin + ") does not hold for " + sizes;
  return sizes;
}

}  // namespace

bool conditions_hold(const FamilyGraph& graph, const ir::SymbolValues& symbols) {
  const std::vector<ir::Condition>& conditions = graph.built->conditions();
  return std::all_of(conditions.begin(), conditions.end(), [&](const ir::Condition& c) { return c.holds(symbols); });
}

std::shared_ptr<const build::Executable> executable_at(FamilyGraph& graph, const ir::SymbolValues& symbols) {
  auto& known = graph.executables;
  auto it = std::find_if(known.begin(), known.end(), [&](const auto& entry) { return entry.symbols == symbols; });
  if (it == known.end()) {
    size_t nodes = std::max<size_t>(graph.graph.nodes.size(), 1);
    if (known.size() >= std::clamp(graph.max_nodes_kept / nodes, kMinExecutables, kMaxExecutables)) known.pop_back();
    it = known.insert(known.begin(), {symbols, graph.built->at(symbols)});
  }
  std::rotate(known.begin(), it, it + 1);
  return known.front().executable;
}

void FamilyGraph::note_run(const std::shared_ptr<const build::Executable>& executable) {
  ++runs;
  if (last_run == executable) return;
  if (last_run) last_run->release_kept_memory();
  last_run = executable;
}

GraphFamily::Found GraphFamily::find(const capture::Functional& functional, bool may_specialise, const BuildSettings& settings) {
  const ir::Graph& graph = functional.graph;
  if (Found found = find_built(graph); found.graph) return found;
  // Generators are objects of one call, and Dynamic::no asks for a graph for each size.
  bool may_generalise = functional.resources.empty() && settings.options.dynamic != Dynamic::no;
  if (may_generalise)
    if (auto symbolic = build_symbolic(functional, settings)) return {symbolic, executable_at(*symbolic, symbolic->graph.symbols)};
  if (may_generalise) remember(graph);
  if (!may_specialise) return {};
  auto special = build(graph, functional, settings);
  return {special, executable_at(*special, {})};
}

GraphFamily::Found GraphFamily::find_built(const ir::Graph& graph) {
  for (const auto& known : graphs_)
    if (auto symbols = ir::symbols_of(known->graph, graph); symbols && conditions_hold(*known, *symbols))
      return {known, executable_at(*known, *symbols)};
  return {};
}

std::shared_ptr<FamilyGraph> GraphFamily::build_symbolic(const capture::Functional& functional, const BuildSettings& settings) {
  auto count = std::count_if(graphs_.begin(), graphs_.end(), [](const auto& known) { return is_symbolic(*known); });
  if (static_cast<size_t>(count) >= kMaxSymbolicGraphs) {
    warn_of_limit(settings.options);
    return nullptr;
  }
  std::optional<ir::Graph> symbolic;
  // A graph whose conditions do not hold for these sizes is built again with the decisions that they need.
  for (const auto& known : graphs_)
    if (auto symbols = is_symbolic(*known) ? ir::symbols_of(known->graph, functional.graph) : std::nullopt) {
      symbolic = known->graph;
      symbolic->symbols = *symbols;
      settings.recompiles.note("condition", failed_condition(*known, *symbols), capture::return_addresses());
      break;
    }
  if (!symbolic) symbolic = generalised(functional.graph);
  return symbolic ? build(*std::move(symbolic), functional, settings) : nullptr;
}

void GraphFamily::warn_of_limit(const Options& options) {
  if (std::exchange(has_warned_, true)) return;
  warn("'" + options.name + "' has " + std::to_string(kMaxSymbolicGraphs) +
       " graphs for different sizes, and a call fits none of them. Such sizes get graphs of their own from now on, the last " +
       std::to_string(kMaxSpecialGraphs) +
       " of which are kept. Pad arguments to fewer sizes, or name arguments whose sizes are few in Options::specialise. tenon::explain "
       "lists the conditions of all graphs.");
}

// Samples that explain nothing together with the graph (other structure, or a size 1 where it has more) are left out.
std::optional<ir::Graph> GraphFamily::generalised(const ir::Graph& graph) const {
  std::vector<const ir::Graph*> all;
  for (const ir::Graph& sample : samples_)
    if (auto pair = ir::generalise({&sample, &graph}, capture::may_be_size); pair && !pair->symbols.empty()) all.push_back(&sample);
  if (all.empty()) return std::nullopt;
  const ir::Graph* newest = all.front();
  all.push_back(&graph);
  std::optional<ir::Graph> out = ir::generalise(all, capture::may_be_size);
  return out ? out : ir::generalise({newest, &graph}, capture::may_be_size);
}

std::shared_ptr<FamilyGraph> GraphFamily::build(ir::Graph graph, const capture::Functional& functional, const BuildSettings& settings) {
  auto out = std::make_shared<FamilyGraph>();
  out->graph = std::move(graph);
  settings.phases.time(build::Phase::verify, [&] { build::check_graph(out->graph); });
  out->built = settings.phases.time(
      build::Phase::build, [&] { return build::build_graph(settings.options, out->graph, functional.resources, settings.keeps_weights); });
  graphs_.insert(graphs_.begin(), out);
  auto is_special = [](const auto& known) { return !is_symbolic(*known); };
  if (std::count_if(graphs_.begin(), graphs_.end(), is_special) > static_cast<ptrdiff_t>(kMaxSpecialGraphs))
    graphs_.erase(std::find_if(graphs_.rbegin(), graphs_.rend(), is_special).base() - 1);
  return out;
}

void GraphFamily::remember(const ir::Graph& graph) {
  bool is_known = std::any_of(samples_.begin(), samples_.end(), [&](const ir::Graph& sample) {
    return ir::symbols_of(sample, graph).has_value();  // A graph of numbers matches itself alone.
  });
  if (is_known) return;
  samples_.insert(samples_.begin(), graph);
  if (samples_.size() > kMaxSamples) samples_.pop_back();
}

}  // namespace tenon::driver
