#include "capture/source.h"

#include <torch/csrc/profiler/unwind/unwind.h>

#include <algorithm>

namespace tenon::capture {
namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool is_library_frame(const torch::unwind::Frame& frame) {
  for (const char* path : {"/torch/include/", "/include/c++/", "/src/capture/", "/src/driver/", "tenon/compile.h"})
    if (contains(frame.filename, path)) return true;
  for (const char* prefix : {"at::", "c10::", "torch::", "std::", "tenon::capture::", "tenon::driver::"})
    if (frame.funcname.rfind(prefix, 0) == 0) return true;
  return false;
}

bool has_line(const torch::unwind::Frame& frame) {
  return frame.lineno > 0 && !frame.filename.empty() && frame.filename[0] != '?';
}

}  // namespace

std::vector<void*> return_addresses() { return torch::unwind::unwind(); }

std::string user_line(const std::vector<void*>& frames) {
  for (auto mode : {torch::unwind::Mode::fast, torch::unwind::Mode::addr2line}) {
    std::vector<torch::unwind::Frame> symbols;
    try {
      symbols = torch::unwind::symbolize(frames, mode);
    } catch (const std::exception&) {
      continue;
    }
    for (const auto& frame : symbols) {
      if (!has_line(frame) || is_library_frame(frame)) continue;
      size_t slash = frame.filename.rfind('/');
      std::string file = slash == std::string::npos ? frame.filename : frame.filename.substr(slash + 1);
      return file + ":" + std::to_string(frame.lineno);
    }
  }
  return "an unknown line (build with -g)";
}

}  // namespace tenon::capture
