// A region: what stands behind one compiled function. Finds the variant that may answer a call,
// or runs the program, records it and decides whether the recording may answer next time.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver/checked.h"
#include "driver/recording.h"
#include "driver/variant.h"
#include "tenon/inspect.h"

namespace tenon::detail {

class Region {
 public:
  explicit Region(Options options);

  Answer answer(const Leaves& in);
  void record(const Leaves& in, const std::function<Outcome()>& body);
  Explanation explain();
  void reset();

 private:
  using Variants = std::vector<std::shared_ptr<driver::Variant>>;

  // What is known for a call's arguments.
  struct Past {
    std::shared_ptr<driver::Recording> candidate;
    std::shared_ptr<driver::Variant> variant;
    capture::GuardFailure failure;  // why the newest candidate does not fit
  };
  bool runs_plainly() const;
  Past look_back(const Leaves& in) const;
  void learn(const Past& past, std::shared_ptr<driver::Recording> recording);
  std::shared_ptr<driver::Variant> make_variant(const std::shared_ptr<driver::Recording>& recording, std::vector<std::string>& obstacles);
  void publish(std::shared_ptr<driver::Variant> variant, const driver::Variant* replaces);
  std::shared_ptr<driver::Variant> with_backward(const std::shared_ptr<driver::Variant>& variant);

  Options options_;
  driver::BackendKind kind_;
  driver::CheckedCalls checked_;
  driver::InternalErrors internal_errors_;
  driver::RecompileLimit recompile_limit_;
  driver::Breaks breaks_;
  std::mutex mutex_;
  std::shared_ptr<const Variants> variants_ = std::make_shared<Variants>();
  std::vector<std::shared_ptr<driver::Recording>> candidates_;
  driver::Known known_;
  driver::Phases phases_;
  Explanation counts_;  // calls, recompiles, obstacles
};

}  // namespace tenon::detail
