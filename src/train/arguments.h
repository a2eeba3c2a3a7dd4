// Training arguments: their checks, and the compile options that they choose. tenon/trainer.h declares the arguments.
#pragma once

#include <tenon/trainer.h>

#include <string>
#include <vector>

namespace tenon::train {

// Throws UserError(config) that names the field if a value is out of range or unknown.
void check_arguments(const TrainingArguments& arguments);

// Reads torch.compile's name of a mode. Throws UserError(config) that begins with `field` for another text.
Mode mode_of(const std::string& name, const std::string& field);

bool is_compiled(const TrainingArguments& arguments);
// Returns `base` with the backend and the mode of the arguments.
Options compile_options(const TrainingArguments& arguments, Options base);

}  // namespace tenon::train
