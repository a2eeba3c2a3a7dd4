#include "capture/source.h"

#include <torch/csrc/profiler/unwind/unwind.h>

#include <cstdio>
#include <mutex>
#include <sstream>
#include <unordered_map>

namespace tenon::capture {
namespace {

struct Line {
  std::string function, file, number;
};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool belongs_to_user(const Line& line) {
  if (line.file.empty() || line.file[0] == '?' || line.number.empty() || line.number[0] == '?' || line.number == "0") return false;
  for (const char* path : {"/torch/include/", "/include/c++/", "/src/capture/", "/src/driver/", "/tenon/compile.h", "/sysdeps/", "/csu/"})
    if (contains(line.file, path)) return false;
  return true;
}

// Finding a line takes a process; a break is met at the same place again and again.
std::mutex g_mutex;
std::unordered_map<void*, std::string> g_known;  // "" where the user has no part

// All lines that one address stands for, inlined calls first. Asks binutils' addr2line, which
// knows about inlining; libtorch's own symbolizer does not.
std::vector<Line> lines_of(const std::string& binary, uint64_t offset) {
  std::ostringstream command;
  command << "addr2line -i -f -C -e '" << binary << "' 0x" << std::hex << offset << " 2>/dev/null";
  std::vector<Line> out;
  FILE* pipe = popen(command.str().c_str(), "r");
  if (!pipe) return out;
  std::string text;
  char buffer[4096];
  while (size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  pclose(pipe);
  std::istringstream stream(text);
  std::string function, place;
  while (std::getline(stream, function) && std::getline(stream, place)) {
    size_t colon = place.rfind(':');
    if (colon == std::string::npos) continue;
    std::string number = place.substr(colon + 1);
    out.push_back({function, place.substr(0, colon), number.substr(0, number.find(' '))});
  }
  return out;
}

}  // namespace

std::vector<void*> return_addresses() { return torch::unwind::unwind(); }

static std::string line_at(void* frame) {
  {
    std::lock_guard lock(g_mutex);
    auto known = g_known.find(frame);
    if (known != g_known.end()) return known->second;
  }
  std::string found;
  auto library = torch::unwind::libraryFor(frame);
  bool skip = !library || contains(library->first, "libtorch") || contains(library->first, "libc10") ||
              contains(library->first, "libtenon") || contains(library->first, "'");
  if (!skip)
    for (const Line& line : lines_of(library->first, library->second - 1))  // the call, not where it returns to
      if (found.empty() && belongs_to_user(line)) found = line.file.substr(line.file.rfind('/') + 1) + ":" + line.number;
  std::lock_guard lock(g_mutex);
  return g_known[frame] = found;
}

std::string user_line(const std::vector<void*>& frames) {
  for (void* frame : frames) {
    std::string line = line_at(frame);
    if (!line.empty()) return line;
  }
  return "an unknown line (build with -g)";
}

}  // namespace tenon::capture
