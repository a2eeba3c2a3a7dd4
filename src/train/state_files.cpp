#include "train/state_files.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/config.h"
#include "formats/directory.h"
#include "formats/json.h"

namespace tenon::train {
namespace {

using nlohmann::json;

constexpr const char* kState = "trainer_state.json";
constexpr const char* kPosition = "position.json";
// A safety limit far above the size of a log with an entry for each of a million steps.
constexpr formats::JsonLimits kStateLimits{size_t{1} << 30, size_t{1} << 26};
constexpr int64_t kMaxCount = int64_t{1} << 53;  // Larger integers may not survive other JSON readers.

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

// Steps are integers. A value that is not finite has no JSON form and becomes null.
json entry_json(const std::map<std::string, double>& entry) {
  json out = json::object();
  for (const auto& [name, value] : entry) {
    if (name == "step") out[name] = static_cast<int64_t>(value);
    else if (std::isfinite(value)) out[name] = value;
    else out[name] = nullptr;
  }
  return out;
}

std::map<std::string, double> entry_of(const json& object) {
  std::map<std::string, double> out;
  for (const auto& [name, value] : object.items())
    if (value.is_number() || value.is_null()) out[name] = value.is_null() ? NAN : value.get<double>();
  return out;
}

void write_text(const std::string& directory, const char* name, const std::string& text) {
  formats::Directory(directory).write(name, text);
}

}  // namespace

std::string log_line(const std::map<std::string, double>& entry) { return entry_json(entry).dump(); }

std::string state_text(const TrainerState& state, const TrainingArguments& arguments, const StepPlan& plan) {
  json log = json::array();
  for (const auto& entry : state.log_history) log.push_back(entry_json(entry));
  double eval_steps = arguments.eval_steps > 0 ? arguments.eval_steps : arguments.logging_steps;
  auto interval = [&](double steps) { return whole_steps(steps, plan.max_steps); };
  json out = {{"best_global_step", or_null(state.best_global_step)},
              {"best_metric", or_null(state.best_metric)},
              {"best_model_checkpoint", state.best_model_checkpoint.empty() ? json() : json(state.best_model_checkpoint)},
              {"epoch", state.epoch},
              {"eval_steps", interval(eval_steps)},
              {"global_step", state.global_step},
              {"is_hyper_param_search", false},
              {"is_local_process_zero", true},
              {"is_world_process_zero", true},
              {"log_history", log},
              {"logging_steps", interval(arguments.logging_steps)},
              {"max_steps", plan.max_steps},
              {"num_input_tokens_seen", 0},
              {"num_train_epochs", plan.epochs},
              {"save_steps", interval(arguments.save_steps)},
              {"stateful_callbacks", json::object()},
              {"total_flos", 0.0},
              {"train_batch_size", arguments.per_device_train_batch_size},
              {"trial_name", nullptr},
              {"trial_params", nullptr}};
  return out.dump(2) + "\n";
}

void write_state(const std::string& directory, const TrainerState& state, const TrainingArguments& arguments, const StepPlan& plan) {
  write_text(directory, kState, state_text(state, arguments, plan));
}

TrainerState read_state(const std::string& path) {
  formats::Directory directory(path);
  formats::Config config(formats::read_json(directory, kState, kStateLimits), path + "/" + kState);
  TrainerState state;
  state.global_step = config.integer("global_step", 0, kMaxCount);
  state.max_steps = config.integer("max_steps", 0, kMaxCount);
  state.epoch = config.number("epoch", 0, 1e15);
  const json& log = config.any("log_history");
  if (!log.is_array()) config.fail("log_history", "must be a list");
  for (const json& entry : log) {
    if (!entry.is_object()) config.fail("log_history", "must be a list of objects");
    state.log_history.push_back(entry_of(entry));
  }
  if (config.has("best_metric")) state.best_metric = config.number("best_metric", -1e300, 1e300);
  if (config.has("best_global_step")) state.best_global_step = config.integer("best_global_step", 0, kMaxCount);
  state.best_model_checkpoint = config.text_or("best_model_checkpoint", "");
  return state;
}

void write_scheduler(const std::string& directory, const TrainingArguments& arguments, const StepPlan& plan, int64_t step) {
  double factor = learning_rate_factor(arguments.lr_scheduler_type, step, plan.warmup_steps, plan.max_steps);
  json out = {{"base_lrs", json::array({arguments.learning_rate})},
              {"last_epoch", step},
              {"last_lr", json::array({arguments.learning_rate * factor})},
              {"lr_scheduler_type", arguments.lr_scheduler_type},
              {"num_training_steps", plan.max_steps},
              {"num_warmup_steps", plan.warmup_steps}};
  write_text(directory, "scheduler.json", out.dump(2) + "\n");
}

void write_position(const std::string& directory, const LoopPosition& position) {
  json out = {{"examples", position.examples},
              {"per_device_train_batch_size", position.batch_size},
              {"processes", position.processes},
              {"gradient_accumulation_steps", position.accumulation_steps},
              {"seed", position.seed},
              {"unlogged_loss", std::isfinite(position.unlogged_loss) ? json(position.unlogged_loss) : json()},
              {"logged_step", position.logged_step}};
  write_text(directory, kPosition, out.dump(2) + "\n");
}

LoopPosition read_position(const std::string& path, const LoopPosition& expected) {
  formats::Directory directory(path);
  formats::Config config = formats::Config::read(directory, kPosition);
  auto need_equal = [&](const char* name, int64_t value) {
    int64_t known = config.integer_or(name, 1, 0, kMaxCount);  // Older checkpoints have no "processes".
    if (known != value)
      config.fail(name, "is " + std::to_string(known) + ", and this training has " + std::to_string(value) +
                            ", so it cannot continue where the checkpoint ends. Resume with the same data and arguments, or start a new "
                            "training in another output_dir");
  };
  need_equal("examples", expected.examples);
  need_equal("per_device_train_batch_size", expected.batch_size);
  need_equal("processes", expected.processes);
  need_equal("gradient_accumulation_steps", expected.accumulation_steps);
  need_equal("seed", expected.seed);
  LoopPosition out = expected;
  out.unlogged_loss = static_cast<float>(config.number_or("unlogged_loss", NAN, -1e300, 1e300));
  out.logged_step = config.integer("logged_step", 0, kMaxCount);
  return out;
}

}  // namespace tenon::train
