// Settings of an Accelerator, completed by the environment.
#pragma once

#include <tenon/accelerate.h>

#include <optional>

namespace tenon::train {

// Returns what prepared functions are compiled with, or nothing if they are not compiled. Throws UserError(config) for unknown names.
std::optional<Options> compile_options(const CompilePlugin& plugin);

// Reads the fields that the environment sets. Throws UserError(config) for values out of range.
AcceleratorOptions with_environment(AcceleratorOptions options);

}  // namespace tenon::train
