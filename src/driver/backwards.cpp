#include "driver/backwards.h"

#include "base/process.h"
#include "tenon/control.h"

namespace tenon::driver {
namespace {

Options backward_options(Options options) {
  options.fullgraph = false;  // Breaks in libtorch's own derivatives are not the user's fault.
  options.specialise.clear();
  return options;
}

}  // namespace

Backwards::Backwards(const Options& options) : options_(backward_options(options)), calls_(options_, process_, /*are_backwards=*/true) {}

void Backwards::run_backward(const std::function<void()>& body) {
  if (stance() == Stance::force_eager || process_is_ending()) return body();
  calls_.call({}, [&] {
    body();
    return detail::RecordedResult{};
  });
}

void Backwards::explain(Explanation& out) {
  Explanation own;
  own.phases = out.phases;
  calls_.explain(own);
  out.phases = std::move(own.phases);
  out.backwards = {own.calls, own.answered, own.replayed, own.recorded, own.plain, own.backwards.whole};
  for (Explanation::Graph& graph : own.graphs) {
    graph.served_as = "backward, " + graph.served_as;
    out.graphs.push_back(std::move(graph));
  }
  out.breaks.insert(out.breaks.end(), own.breaks.begin(), own.breaks.end());
  out.recompiles.insert(out.recompiles.end(), own.recompiles.begin(), own.recompiles.end());
  for (const std::string& obstacle : own.obstacles) out.obstacles.push_back("in the backward: " + obstacle);
}

}  // namespace tenon::driver
