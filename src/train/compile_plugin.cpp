#include "train/compile_plugin.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "base/warn.h"
#include "dist/launch.h"
#include "train/arguments.h"

namespace tenon::train {
namespace {

std::string backend_of(const std::string& name) {
  std::string wanted = lower_case(name);
  if (wanted == "inductor" || wanted == "tenon") return "native";
  std::vector<std::string> known = backends();
  if (std::find(known.begin(), known.end(), wanted) != known.end()) return wanted;
  if (std::find(known.begin(), known.end(), name) != known.end()) return name;  // Registered by the user, in upper case too.
  known.insert(known.end(), {"no", "inductor"});
  std::string nearest = nearest_name(wanted, known);
  throw UserError(ErrorCode::config, "CompilePlugin: there is no backend " + shown(name) + "." +
                                         (nearest.empty() ? "" : " Did you mean " + shown(nearest) + "?") +
                                         " no compiles nothing, native is the default compiler.");
}

}  // namespace

std::optional<Options> compile_options(const CompilePlugin& plugin) {
  std::string backend = plugin.backend.value_or(dist::read_text(Flag::dynamo_backend).value_or("no"));
  Options out;
  out.mode = mode_of(lower_case(plugin.mode.value_or(dist::read_text(Flag::dynamo_mode).value_or("default"))), "CompilePlugin::mode");
  out.fullgraph = plugin.fullgraph ? *plugin.fullgraph : dist::read_switch(Flag::dynamo_fullgraph).value_or(false);
  std::optional<bool> dynamic = plugin.dynamic ? plugin.dynamic : dist::read_switch(Flag::dynamo_dynamic);
  if (dynamic) out.dynamic = *dynamic ? Dynamic::yes : Dynamic::no;
  if (lower_case(backend) == "no") return std::nullopt;
  bool by_regions =
      plugin.use_regional_compilation ? *plugin.use_regional_compilation : dist::read_switch(Flag::dynamo_regions).value_or(false);
  if (by_regions)
    warn_once("regions",
              "regional compilation has no effect: the whole model is compiled, which takes about 0.1 s for 12 layers, and its repeated "
              "blocks share their kernels.");
  out.backend = backend_of(backend);
  return out;
}

AcceleratorOptions with_environment(AcceleratorOptions options) {
  if (!options.mixed_precision) options.mixed_precision = dist::read_text(Flag::mixed_precision).value_or("no");
  if (auto text = dist::read_text(Flag::accumulation_steps)) {
    auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), options.gradient_accumulation_steps);
    if (error != std::errc() || end != text->data() + text->size())
      throw UserError(ErrorCode::config,
                      "the environment variable ACCELERATE_GRADIENT_ACCUMULATION_STEPS is " + shown(*text) + ", must be an integer.");
  }
  auto refuse = [](const std::string& field, const std::string& what) {
    throw UserError(ErrorCode::config, "AcceleratorOptions::" + field + " " + what);
  };
  const std::string& precision = *options.mixed_precision;
  if (precision == "fp16" || precision == "fp8")
    refuse("mixed_precision", "is " + precision + ", which CPUs do not train in. Use bf16 or no.");
  if (precision != "no" && precision != "bf16") refuse("mixed_precision", "is " + shown(precision) + ", must be no or bf16.");
  if (options.gradient_accumulation_steps < 1)
    refuse("gradient_accumulation_steps", "is " + std::to_string(options.gradient_accumulation_steps) + ", must be at least 1.");
  if (options.bucket_megabytes < 1 || options.bucket_megabytes > 1 << 20)
    refuse("bucket_megabytes", "is " + std::to_string(options.bucket_megabytes) + ", must be from 1 to 1048576.");
  if (!(options.timeout_seconds >= 2)) refuse("timeout_seconds", "is " + real_text(options.timeout_seconds) + ", must be at least 2.");
  return options;
}

}  // namespace tenon::train
