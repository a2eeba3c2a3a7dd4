#include "build/check_graph.h"

#include "base/error.h"
#include "base/flags.h"
#include "build/build_error.h"
#include "ir/graph/parse.h"
#include "ir/graph/print.h"
#include "ir/graph/verify.h"

namespace tenon::build {

void check_graph(const ir::Graph& graph) {
  try {
    ir::verify(graph);
    check_text(graph);
  } catch (const std::exception& error) {
    throw BuildError(graph, /*keeps_weights=*/false, error.what());
  }
}

void check_text(const ir::Graph& graph) {
  // The text form is the interface to other backends and to tools, so it must be complete.
  static const bool check_text = is_set(Flag::check_text);
  if (!check_text) return;
  std::string text = ir::print(graph);
  ir::Graph again = ir::parse(text);
  ir::verify(again);
  if (ir::print(again) != text) throw InternalError("a graph changed when its text was parsed and printed again:\n" + text);
}

}  // namespace tenon::build
