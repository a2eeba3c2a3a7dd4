#include "passes/runner.h"

#include <cstdlib>
#include <iostream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/flags.h"
#include "ir/graph/print.h"
#include "ir/graph/verify.h"
#include "passes/borrow_operands.h"
#include "passes/canonicalise.h"
#include "passes/decompose.h"
#include "passes/eliminate_casts.h"
#include "passes/eliminate_common.h"
#include "passes/eliminate_dead.h"
#include "passes/fold.h"
#include "passes/simplify_views.h"

namespace tenon::passes {
namespace {

struct Pass {
  const char* name;
  size_t (*run)(ir::Graph&);  // Null for a pass that needs more than the graph.
};

constexpr Pass kPasses[] = {
#define TENON_RUN_graph(name) name
#define TENON_RUN_native(name) nullptr
#define TENON_PASS(name, runner, what) {#name, TENON_RUN_##runner(name)},
#include "passes/passes.def"
#undef TENON_PASS
#undef TENON_RUN_native
#undef TENON_RUN_graph
};

const Pass& find(const std::string& name) {
  std::string known;
  for (const Pass& pass : kPasses) {
    if (pass.name == name) return pass;
    known += std::string(known.empty() ? "" : ", ") + pass.name;
  }
  throw UserError(ErrorCode::pass, "no pass is named '" + name + "'; there are: " + known);
}

std::set<std::string> read_skipped() {
  std::set<std::string> names;
  const char* text = flag_text(Flag::skip_pass);
  std::istringstream in(text ? text : "");
  for (std::string name; std::getline(in, name, ',');) names.insert(find(name).name);
  return names;
}

// Tests verify the graph after each pass; a user's program verifies it once.
bool checks_each() {
  static const bool wanted = is_set(Flag::check_text);
  return wanted;
}

void verify(const std::string& who, const ir::Graph& graph) {
  try {
    ir::verify(graph);
  } catch (const UserError& error) {
    throw InternalError(who + " broke a graph: " + error.what());
  }
}

PassRun run(const Pass& pass, ir::Graph& graph) {
  std::vector<ir::Condition> conditions = graph.conditions;
  size_t changes = 0;
  {
    ir::ConditionScope scope(graph.symbols, std::string("pass ") + pass.name, conditions);
    changes = pass.run(graph);
  }
  if (changes > 0) graph.conditions = std::move(conditions);  // An unchanged graph needs none of the new ones.
  PassRun done{pass.name, changes > 0};
  if (!done.changed) return done;
  if (debug_level() >= 3) std::cerr << "# after " + done.name + ", " + std::to_string(changes) + " changes\n" + ir::print(graph);
  if (checks_each() || debug_level() >= 3) verify("the pass " + done.name + " (TENON_SKIP_PASS=" + done.name + " skips it)", graph);
  return done;
}

}  // namespace

int debug_level() {
  static const int level = [] {
    const char* text = flag_text(Flag::debug);
    return text ? std::atoi(text) : 0;
  }();
  return level;
}

bool is_skipped(const std::string& name) {
  static const std::set<std::string> skipped = read_skipped();
  return skipped.count(name) > 0;
}

std::vector<PassRun> run_all(ir::Graph& graph) {
  std::vector<PassRun> runs;
  for (const Pass& pass : kPasses)
    if (pass.run && !is_skipped(pass.name)) runs.push_back(run(pass, graph));
  verify("a pass (TENON_CHECK_TEXT=1 shows which one)", graph);
  return runs;
}

PassRun run_pass(const std::string& name, ir::Graph& graph) {
  const Pass& pass = find(name);
  if (!pass.run) throw UserError(ErrorCode::pass, "the pass '" + name + "' makes kernels, not a graph; tenon-opt --kernels runs it");
  PassRun done = run(pass, graph);
  verify("the pass " + name, graph);
  return done;
}

}  // namespace tenon::passes
