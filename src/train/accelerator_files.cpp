// The files of Accelerator::save_state. The main process writes what all processes share, each process its own generator, its part of a
// divided optimizer, and the positions of its loaders.
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fcntl.h>
#include <stdio.h>
#include <tenon/accelerate.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "formats/config.h"
#include "formats/directory.h"
#include "formats/json.h"
#include "train/accelerator_state.h"
#include "train/checkpoint.h"
#include "train/error_text.h"
#include "train/tensor_file.h"

namespace tenon {
namespace {

using detail::AcceleratorState;
using nlohmann::json;
using train::TensorsByName;
namespace fs = std::filesystem;

constexpr const char* kStateFile = "accelerator_state.json";
constexpr int64_t kMaxCount = int64_t{1} << 53;

// The name of the file of the object with this index: "model.safetensors", "model_1.safetensors".
std::string file_name(const std::string& stem, size_t index, const std::string& extension) {
  return stem + (index == 0 ? "" : "_" + std::to_string(index)) + extension;
}

std::string rank_file(const AcceleratorState& state) { return "random_states_" + std::to_string(state.group->rank()) + ".safetensors"; }

std::string optimizer_file(const AcceleratorState& state, size_t index) {
  bool is_divided = state.optimizers[index].shards != nullptr;
  return file_name("optimizer", index, is_divided ? ".rank_" + std::to_string(state.group->rank()) + ".pt" : ".pt");
}

TensorsByName saved_tensors_of(const AcceleratorState::PreparedTensors& model) {
  TensorsByName out;
  for (const auto* list : {&model.parameters, &model.buffers})
    for (const auto& [name, tensor] : *list) out.emplace(name, tensor);
  return out;
}

TensorsByName generators_of(const AcceleratorState& state) {
  TensorsByName out{{"cpu", at::detail::getDefaultCPUGenerator().get_state()}};
  for (size_t i = 0; i < state.loaders.size(); ++i) {
    std::string prefix = "loader_" + std::to_string(i) + ".";
    const detail::LoaderProgress& loader = *state.loaders[i];
    if (loader.own_generator.defined()) out.emplace(prefix + "own_generator", loader.own_generator);
    if (loader.iteration.expired()) continue;
    out.emplace(prefix + "default_generator", loader.default_generator);
    if (loader.own_generator_before.defined()) out.emplace(prefix + "own_generator_before", loader.own_generator_before);
  }
  return out;
}

void write_files(const AcceleratorState& state, const std::string& directory) {
  formats::Directory files(directory);
  bool is_main = state.group->rank() == 0;
  train::write_tensors(directory, rank_file(state), generators_of(state));
  for (size_t i = 0; i < state.optimizers.size(); ++i) {
    if (!is_main && !state.optimizers[i].shards) continue;
    torch::serialize::OutputArchive archive;
    state.optimizers[i].optimizer->save(archive);
    std::ostringstream bytes;
    archive.save_to(bytes);
    files.write(optimizer_file(state, i), bytes.str());
  }
  if (!is_main) return;
  for (size_t i = 0; i < state.models.size(); ++i)
    train::write_tensors(directory, file_name("model", i, ".safetensors"), saved_tensors_of(state.models[i]));
  json loaders = json::array(), schedulers = json::array();
  for (const auto& loader : state.loaders) loaders.push_back({{"epoch", loader->epoch}, {"batches", loader->batches}});
  for (const auto& scheduler : state.schedulers) schedulers.push_back(scheduler.steps);
  json all = {{"num_processes", state.group->size()},
              {"models", state.models.size()},
              {"optimizers", state.optimizers.size()},
              {"step", state.step},
              {"loaders", loaders},
              {"schedulers", schedulers}};
  files.write(kStateFile, all.dump(2) + "\n");
}

void read_files(AcceleratorState& state, const std::string& directory) {
  formats::Config config = formats::Config::read(formats::Directory(directory), kStateFile);
  auto count = [&](const char* name) { return config.integer(name, 0, kMaxCount); };
  auto require = [&](const char* name, size_t here) {
    if (count(name) != static_cast<int64_t>(here))
      throw UserError(ErrorCode::format, directory + ": the state has " + std::to_string(count(name)) + " " + name + ", this job has " +
                                             std::to_string(here) + ". Prepare the same objects in as many processes.");
  };
  require("num_processes", static_cast<size_t>(state.group->size()));
  require("models", state.models.size());
  require("optimizers", state.optimizers.size());
  const json &loaders = config.any("loaders"), &schedulers = config.any("schedulers");
  bool fits =
      loaders.is_array() && loaders.size() == state.loaders.size() && schedulers.is_array() && schedulers.size() == state.schedulers.size();
  if (!fits) throw UserError(ErrorCode::format, directory + ": the state has other loaders or schedulers than this job.");

  for (size_t i = 0; i < state.models.size(); ++i) {
    std::string name = file_name("model", i, ".safetensors");
    TensorsByName found = train::read_tensors(directory, name);
    for (const auto& [key, tensor] : saved_tensors_of(state.models[i])) train::copy_tensor(found, key, directory + "/" + name, tensor);
  }
  // Steps of a scheduler multiply the learning rate, so they are made again; the optimizer's file then has the exact rate.
  for (size_t i = 0; i < state.schedulers.size(); ++i) {
    AcceleratorState::SchedulerEntry& scheduler = state.schedulers[i];
    auto wanted = schedulers[i].get<int64_t>();
    if (scheduler.steps > wanted)
      throw UserError(ErrorCode::config, "a scheduler cannot go back from step " + std::to_string(scheduler.steps) + " to step " +
                                             std::to_string(wanted) + ". Load the state into objects that were just made.");
    for (; scheduler.steps < wanted; ++scheduler.steps) scheduler.step();
  }
  for (size_t i = 0; i < state.optimizers.size(); ++i) {
    torch::serialize::InputArchive archive;
    std::istringstream bytes(formats::Directory(directory).read_text(optimizer_file(state, i), size_t{1} << 40));
    archive.load_from(bytes);
    state.optimizers[i].optimizer->load(archive);
  }
  state.step = count("step");

  TensorsByName generators = train::read_tensors(directory, rank_file(state));
  auto generator = [&](const std::string& name) {
    auto found = generators.find(name);
    return found == generators.end() ? at::Tensor() : found->second;
  };
  for (size_t i = 0; i < state.loaders.size(); ++i) {
    std::string prefix = "loader_" + std::to_string(i) + ".";
    *state.loaders[i] = {.epoch = loaders[i].at("epoch").get<int64_t>(),
                         .batches = loaders[i].at("batches").get<size_t>(),
                         .default_generator = generator(prefix + "default_generator"),
                         .own_generator_before = generator(prefix + "own_generator_before"),
                         .own_generator = generator(prefix + "own_generator"),
                         .is_resumed = true};
  }
  at::Generator standard = at::detail::getDefaultCPUGenerator();
  standard.set_state(generators.at("cpu"));
}

// Puts a new directory in the place of another one. There is a complete directory at any moment, on file systems that can exchange two.
void replace_directory(const std::string& written, const std::string& directory) {
  std::string replaced = directory + ".old";
  fs::remove_all(replaced);
  bool exists = fs::exists(directory);
  if (!exists || ::renameat2(AT_FDCWD, written.c_str(), AT_FDCWD, directory.c_str(), RENAME_EXCHANGE) != 0) {
    if (exists) fs::rename(directory, replaced);
    fs::rename(written, directory);
  }
  train::sync_directory(fs::absolute(directory).parent_path().string());
  fs::remove_all(written);
  fs::remove_all(replaced);
}

}  // namespace

void Accelerator::save_state(const std::string& path) {
  dist::ProcessGroup& group = *state_->group;
  if (!state_->is_sync)
    throw UserError(
        ErrorCode::config,
        "save_state() between the batches of one optimizer step would lose their gradients. Call it where sync_gradients() is true.");
  std::string directory = path;
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  std::string written = directory + ".tmp";
  dist::run_in_main(group, [&] {
    if (fs::exists(directory) && !fs::is_empty(directory) && !fs::exists(directory + "/" + kStateFile))
      throw UserError(ErrorCode::file,
                      directory + ": this directory has other files than a state, which would be replaced. Choose another one.");
    fs::remove_all(written);
    fs::create_directories(written);
  });
  dist::run_everywhere(group, [&] { write_files(*state_, written); });
  dist::run_in_main(group, [&] { replace_directory(written, directory); });
}

void Accelerator::load_state(const std::string& directory) {
  at::NoGradGuard no_grad;
  dist::run_everywhere(*state_->group, [&] {
    try {
      read_files(*state_, directory);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {  // JSON and archives throw exceptions of their own.
      throw UserError(ErrorCode::format, directory + ": the state is malformed: " + error.what());
    }
  });
}

}  // namespace tenon
