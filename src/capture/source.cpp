#include "capture/source.h"

#include <torch/csrc/profiler/unwind/unwind.h>

#include <cstdio>
#include <sstream>

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

std::string user_line(const std::vector<void*>& frames) {
  for (void* frame : frames) {
    auto library = torch::unwind::libraryFor(frame);
    if (!library || contains(library->first, "libtorch") || contains(library->first, "libc10") || contains(library->first, "'")) continue;
    for (const Line& line : lines_of(library->first, library->second - 1))  // the call, not where it returns to
      if (belongs_to_user(line)) return line.file.substr(line.file.rfind('/') + 1) + ":" + line.number;
  }
  return "an unknown line (build with -g)";
}

}  // namespace tenon::capture
