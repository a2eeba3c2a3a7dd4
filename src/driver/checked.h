// Checked calls: the user's C++ runs on every call, under a replayer. Known op ranges are computed by
// graphs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/counters.h"
#include "build/pipeline.h"
#include "capture/replayer.h"
#include "driver/breaks.h"
#include "driver/graph_family.h"
#include "driver/internal_errors.h"
#include "driver/recompiles.h"
#include "tenon/inspect.h"

namespace tenon::driver {

class CheckedCalls {
 public:
  // `process`: the counters that include these calls. `are_backwards`: each call is one backward pass.
  explicit CheckedCalls(const Options& options, ProcessCounters& process = counters(), bool are_backwards = false)
      : options_(options), process_(process), are_backwards_(are_backwards), internal_errors_(options) {}

  void call(const detail::Leaves& in, const std::function<detail::RecordedResult()>& body);
  bool has_streams() const { return !streams_[0].list()->empty() || !streams_[1].list()->empty(); }
  // Adds to what is there; `out` has an entry for each phase.
  void explain(Explanation& out);
  void reset();

 private:
  // How an op range of a stream is run by a graph.
  struct Plan {
    std::vector<int32_t> live;  // Storages that outlive the range.
    size_t times_seen = 0;
    bool is_unbuildable = false;
    capture::Functional functional;
    GraphFamily::Found found;
    std::vector<capture::Geometry> inputs, outputs;
  };
  using PlanKey = std::tuple<bool, size_t, size_t, size_t>;  // Grad mode, stream, begin and end of the op range.
  // The same op range of all streams that differ only in sizes, the storages that outlive it, and sizes that stay constants.
  using FamilyKey = std::tuple<bool, size_t, size_t, size_t, std::vector<int32_t>, std::vector<int64_t>>;
  // What the graphs of a call depend on besides its ops.
  struct CallKind {
    bool grad_mode;                       // Grad mode at the start of the call.
    std::vector<int64_t> constant_sizes;  // Sizes of the arguments that Options::specialise names.
  };

  std::vector<int64_t> constant_sizes(const detail::Leaves& in) const;
  bool run_region(const CallKind& call, const capture::OpRange& range, capture::CallMemory& memory);
  std::shared_ptr<Plan> find_plan(const CallKind& call, const capture::OpRange& range);
  void build_plan(Plan& plan, const capture::OpRange& range, const CallKind& call, bool may_specialise);
  void remember_recording(GraphFamily& family, const capture::OpRange& range, bool grad_mode);
  void forget_plans(bool grad_mode);
  void note_plain();
  void learn(bool grad_mode, capture::Replayer& replayer, double seconds);
  bool may_record() const;

  const Options& options_;
  ProcessCounters& process_;
  const bool are_backwards_;
  capture::Streams streams_[2];  // Indexed by grad mode at the start of the call.
  std::mutex mutex_;             // Guards the members below.
  std::map<PlanKey, std::vector<std::shared_ptr<Plan>>> plans_;
  std::map<FamilyKey, GraphFamily> families_;
  InternalErrors internal_errors_;
  Recompiles recompiles_;
  Breaks breaks_;
  build::Phases phases_;
  Explanation counts_;
};

}  // namespace tenon::driver
