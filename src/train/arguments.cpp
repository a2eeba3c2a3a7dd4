#include "train/arguments.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "formats/config.h"
#include "train/learning_rate.h"

namespace tenon {
namespace train {
namespace {

const std::vector<std::string>& field_names() {
  static const std::vector<std::string> all = {
#define TENON_NUMBER(name, min, max) #name,
#define TENON_SWITCH(name) #name,
#define TENON_TEXT(name) #name,
#include "train/arguments.def"
#undef TENON_NUMBER
#undef TENON_SWITCH
#undef TENON_TEXT
  };
  return all;
}

void read(const formats::Config& config, const char* name, int64_t& value, double min, double max) {
  value = config.integer_or(name, value, static_cast<int64_t>(min), static_cast<int64_t>(max));
}

void read(const formats::Config& config, const char* name, double& value, double min, double max) {
  value = config.number_or(name, value, min, max);
}

void read(const formats::Config& config, const char* name, bool& value) { value = config.boolean_or(name, value); }

void read(const formats::Config& config, const char* name, std::string& value) {
  bool is_switch = std::string_view(name) == "resume_from_checkpoint" && config.has(name) && config.any(name).is_boolean();
  if (is_switch) value = config.boolean(name) ? "last" : "";
  else value = config.text_or(name, value);
}

std::string suggestion(const std::string& name) { return name.empty() ? "" : "Did you mean " + shown(name) + "? "; }

void refuse_unknown(const formats::Config& config) {
  for (const formats::Config::Field& field : config.unread())
    config.fail(field.name, "does not exist. " + suggestion(nearest_name(field.name, field_names())) + "tenon/trainer.h lists all fields");
}

[[noreturn]] void refuse_field(const std::string& field, const std::string& what) {
  throw UserError(ErrorCode::config, "training arguments: the field " + shown(field) + " " + what);
}

void check(const char* name, double value, double min, double max) {
  if (!(value >= min && value <= max))
    refuse_field(name, "is " + real_text(value) + ", must be from " + real_text(min) + " to " + real_text(max));
}

constexpr const char* kModeField = "training arguments: the field \"torch_compile_mode\"";

}  // namespace

Mode mode_of(const std::string& name, const std::string& field) {
  if (name.empty() || name == "default") return Mode::standard;
  if (name == "reduce-overhead") return Mode::reduce_overhead;
  if (name == "max-autotune") return Mode::max_autotune;
  throw UserError(ErrorCode::config, field + " is " + shown(name) + ", must be default, reduce-overhead or max-autotune");
}

void check_arguments(const TrainingArguments& arguments) {
#define TENON_NUMBER(name, min, max) check(#name, static_cast<double>(arguments.name), min, max);
#define TENON_SWITCH(name)
#define TENON_TEXT(name)
#include "train/arguments.def"
#undef TENON_NUMBER
#undef TENON_SWITCH
#undef TENON_TEXT
  if (arguments.output_dir.empty()) refuse_field("output_dir", "is empty. Name a directory for checkpoints and logs");
  if (arguments.max_steps == 0) refuse_field("max_steps", "is 0. Give a number of steps, or -1 to train num_train_epochs");
  const std::vector<std::string>& known = schedule_names();
  if (std::find(known.begin(), known.end(), arguments.lr_scheduler_type) == known.end())
    refuse_field("lr_scheduler_type",
                 "is " + shown(arguments.lr_scheduler_type) + ", must be linear, cosine, constant or constant_with_warmup");
  mode_of(arguments.torch_compile_mode, kModeField);
}

bool is_compiled(const TrainingArguments& arguments) {
  return arguments.torch_compile || !arguments.torch_compile_backend.empty() || !arguments.torch_compile_mode.empty();
}

Options compile_options(const TrainingArguments& arguments, Options base) {
  if (!arguments.torch_compile_backend.empty()) base.backend = arguments.torch_compile_backend;
  base.mode = mode_of(arguments.torch_compile_mode, kModeField);
  return base;
}

}  // namespace train

TrainingArguments read_training_arguments(const std::string& json, const std::string& source, TrainingArguments defaults) {
  using namespace train;
  formats::Config config = formats::Config::parse(json, source);
#define TENON_NUMBER(name, min, max) read(config, #name, defaults.name, min, max);
#define TENON_SWITCH(name) read(config, #name, defaults.name);
#define TENON_TEXT(name) read(config, #name, defaults.name);
#include "train/arguments.def"
#undef TENON_NUMBER
#undef TENON_SWITCH
#undef TENON_TEXT
  refuse_unknown(config);
  return defaults;
}

}  // namespace tenon
