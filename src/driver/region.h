// A region: the state of one compiled function. Finds the variant that may serve a call; if there is
// none, runs and records the program, and builds a variant once two recordings agree.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "build/backends.h"
#include "driver/backwards.h"
#include "driver/checked.h"
#include "driver/recording.h"
#include "driver/variant.h"
#include "tenon/inspect.h"

namespace tenon {

class Region {
 public:
  explicit Region(Options options);

  detail::GraphResult run_graph(const detail::Leaves& in);
  void record(const detail::Leaves& in, const std::function<detail::RecordedResult()>& body);
  Explanation explain();
  void reset();

 private:
  using Variants = std::vector<std::shared_ptr<driver::Variant>>;

  // The recording and the variant whose guards hold for a call's arguments.
  struct CallMatch {
    std::shared_ptr<driver::Recording> candidate;
    std::shared_ptr<driver::Variant> variant;
    capture::GuardFailure failure;  // The guard of the newest candidate that failed, or one on sizes of any candidate.
  };
  bool runs_plainly() const;
  void run_checked(const detail::Leaves& in, const std::function<detail::RecordedResult()>& body);
  CallMatch find_match(const detail::Leaves& in) const;
  void check_specialised(const detail::Leaves& in) const;
  bool differs_in_sizes(const capture::GuardFailure& failure) const;
  void learn(const CallMatch& match, std::shared_ptr<driver::Recording> recording);
  std::shared_ptr<driver::Variant> make_variant(const std::shared_ptr<driver::Recording>& recording, std::vector<std::string>& obstacles);
  void publish(std::shared_ptr<driver::Variant> variant, const driver::Variant* replaces);
  std::shared_ptr<driver::Variant> with_backward(const std::shared_ptr<driver::Variant>& variant);

  Options options_;
  build::BackendKind kind_;
  driver::CheckedCalls checked_;
  std::shared_ptr<driver::Backwards> backwards_;
  driver::InternalErrors internal_errors_;
  driver::Recompiles recompiles_;
  driver::Breaks breaks_;
  std::mutex mutex_;
  std::shared_ptr<const Variants> variants_ = std::make_shared<Variants>();
  std::vector<std::shared_ptr<driver::Recording>> candidates_;
  driver::KnownLeaves known_leaves_;
  build::Phases phases_;
  Explanation counts_;  // Only calls and obstacles are used.
};

}  // namespace tenon
