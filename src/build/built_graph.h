// A graph that has been built for all sizes that fulfil its conditions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "build/executable.h"

namespace tenon::build {

class BuiltGraph {
 public:
  struct BuiltParts {
    std::string backend;
    bool keeps_weights = false;
    std::vector<c10::IValue> resources;
    std::shared_ptr<const ir::Graph> graph;       // The graph after the passes.
    std::vector<ir::Condition> conditions;        // Conditions of the graph and of all stages of the build.
    ir::Reuse reuse;                              // Buffer reuse of the graph op by op.
    std::shared_ptr<const NativeProgram> native;  // Null for other backends.
    double verify = 0;                            // Fraction of the runs that are compared with `oracle`.
    std::shared_ptr<const ir::Graph>
        oracle;  // The graph before the passes; null if nothing is compared, or if the kernels compare themselves.
    std::shared_ptr<Quarantine> quarantine = std::make_shared<Quarantine>();  // Shared by all sizes.
    double tuning_seconds = 0;  // Time that the first run with each set of sizes may spend on tuning; 0 for no tuning.
  };
  explicit BuiltGraph(BuiltParts parts) : parts_(std::make_shared<const BuiltParts>(std::move(parts))) {}

  // The graph serves symbols with which all of these hold.
  const std::vector<ir::Condition>& conditions() const { return parts_->conditions; }
  // Makes the executable for these values of the symbols. Throws as `build_graph` does.
  std::shared_ptr<const Executable> at(const ir::SymbolValues& symbols) const;
  // The same, but throws errors as they are.
  std::shared_ptr<const Executable> make_executable(const ir::SymbolValues& symbols) const;

 private:
  std::shared_ptr<const BuiltParts> parts_;  // Executables share them.
};

}  // namespace tenon::build
