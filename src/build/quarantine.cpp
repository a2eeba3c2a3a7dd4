#include "build/quarantine.h"

#include <torch/csrc/jit/serialization/pickle.h>

#include <filesystem>
#include <fstream>

#include "base/counters.h"
#include "base/flags.h"
#include "base/warn.h"
#include "ir/graph/print.h"

namespace tenon::build {

std::string Quarantine::report() const {
  std::lock_guard lock(mutex_);
  return report_;
}

void Quarantine::impose(const std::string& difference, const ir::Graph& graph, const std::vector<at::Tensor>& inputs) {
  std::lock_guard lock(mutex_);
  if (on_.exchange(true)) return;
  ++counters().quarantined;
  const char* chosen = flag_text(Flag::reproduction_folder);
  std::filesystem::path folder = chosen ? chosen : ".";
  folder /= "tenon-repro-" + graph.name + "-" + std::to_string(counters().quarantined.load());
  report_ = "graph @" + graph.name + " is quarantined: " + difference;
  try {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "graph.txt") << "# " << difference << "\n" << ir::print(graph);
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : inputs) list.push_back(t);
    std::vector<char> bytes = torch::jit::pickle_save(list);
    std::ofstream(folder / "inputs.pt", std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    report_ += "; reproduction in " + folder.string();
  } catch (const std::exception& error) {
    report_ += std::string("; the reproduction could not be written: ") + error.what();
  }
  warn(report_);
}

}  // namespace tenon::build
