// Backends by name: built-in ones, and those that the user has registered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/interpreter.h"
#include "tenon/compile.h"
#include "tenon/inspect.h"

namespace tenon::build {

enum class BackendKind : uint8_t {
  none,    // The program runs as it is.
  graphs,  // Forward and backward graphs are built.
};

// Throws UserError(backend) for an unregistered name.
BackendKind backend_kind(const std::string& name);

// The runner that a registered backend makes for the graph with the interpreter's sizes; empty for built-in backends.
Runner custom_runner(const std::string& name, const std::shared_ptr<const runtime::Interpreter>& op_by_op);

}  // namespace tenon::build
