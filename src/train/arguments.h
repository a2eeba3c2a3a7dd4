// Training arguments: their checks, and the compile options that they choose. tenon/trainer.h declares the arguments.
#pragma once

#include <tenon/trainer.h>

#include <string>
#include <vector>

namespace tenon::train {

// Throws UserError(config) that names the field if a value is out of range or unknown.
void check_arguments(const TrainingArguments& arguments);

bool is_compiled(const TrainingArguments& arguments);
// Returns `base` with the backend and the mode of the arguments.
Options compile_options(const TrainingArguments& arguments, Options base);

}  // namespace tenon::train
