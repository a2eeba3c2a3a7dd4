#include "capture/source.h"

#include <torch/csrc/profiler/unwind/unwind.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "base/process.h"

namespace tenon::capture {
namespace {

struct Line {
  std::string function, file, number;
};

bool contains(const std::string& text, const char* substring) { return text.find(substring) != std::string::npos; }

bool belongs_to_user(const Line& line) {
  if (line.file.empty() || line.file[0] == '?' || line.number.empty() || line.number[0] == '?' || line.number == "0") return false;
  for (const char* path : {"/torch/include/", "/include/c++/", "/src/capture/", "/src/driver/", "/include/tenon/", "/sysdeps/", "/csu/"})
    if (contains(line.file, path)) return false;
  return true;
}

// Lines by frame. Finding a line starts a process, and the same break occurs again and again.
std::mutex g_lines_mutex;
std::unordered_map<void*, std::string> g_known;  // Empty for frames that are not the user's.

struct Address {
  void* frame;
  uint64_t offset;  // Offset in its binary.
};

// Runs binutils' addr2line, which resolves inlined calls; libtorch's own symbolizer does not.
std::string addr2line(const std::string& binary, const Address* begin, const Address* end) {
  std::ostringstream command;
  command << "addr2line -a -i -f -C -e '" << binary << "'" << std::hex;
  for (const Address* address = begin; address != end; ++address) command << " 0x" << address->offset;
  command << " 2>/dev/null";
  std::string text;
  FILE* pipe = popen(command.str().c_str(), "r");
  if (!pipe) return text;
  char buffer[4096];
  while (size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  pclose(pipe);
  return text;
}

// Stores the user's line for each address, the innermost inlined call first, or "" if the frame is not the user's.
void resolve(const std::string& binary, const std::vector<Address>& addresses) {
  constexpr size_t kAddressesPerCommand = 1000;  // Keeps command lines far below the system's limit.
  for (size_t begin = 0; begin < addresses.size(); begin += kAddressesPerCommand) {
    size_t end = std::min(addresses.size(), begin + kAddressesPerCommand), next = begin;
    for (size_t i = begin; i < end; ++i) g_known[addresses[i].frame] = "";
    std::istringstream stream(addr2line(binary, &addresses[begin], &addresses[0] + end));
    std::string function, location;
    while (std::getline(stream, function)) {
      if (function.rfind("0x", 0) == 0) {  // The output of the next address begins.
        ++next;
        continue;
      }
      if (!std::getline(stream, location) || next == begin || next > end) break;
      size_t colon = location.rfind(':');
      if (colon == std::string::npos) continue;
      std::string number = location.substr(colon + 1);
      Line line{function, location.substr(0, colon), number.substr(0, number.find(' '))};
      std::string& found = g_known[addresses[next - 1].frame];
      if (found.empty() && belongs_to_user(line)) found = line.file.substr(line.file.rfind('/') + 1) + ":" + line.number;
    }
  }
}

bool is_library(const std::string& binary) {
  for (const char* name : {"libtorch", "libc10", "libtenon", "'"})
    if (contains(binary, name)) return true;
  return false;
}

}  // namespace

std::vector<void*> return_addresses() { return torch::unwind::unwind(); }

std::string user_line(const std::vector<void*>& frames) { return user_lines({frames})[0]; }

std::vector<std::string> user_lines(const std::vector<std::vector<void*>>& stacks) {
  ForkSafeLock lock(g_lines_mutex);
  std::map<std::string, std::vector<Address>> unknown;  // Keyed by binary.
  for (const std::vector<void*>& frames : stacks)
    for (void* frame : frames) {
      if (!g_known.emplace(frame, "").second) continue;
      auto library = torch::unwind::libraryFor(frame);
      if (library && !is_library(library->first))
        unknown[library->first].push_back({frame, library->second - 1});  // The address of the call, not of the instruction after it.
    }
  for (const auto& [binary, addresses] : unknown) resolve(binary, addresses);
  std::vector<std::string> lines;
  for (const std::vector<void*>& frames : stacks) {
    std::string& line = lines.emplace_back();
    for (size_t i = 0; i < frames.size() && line.empty(); ++i) line = g_known.at(frames[i]);
    if (line.empty()) line = "an unknown line (build with -g)";
  }
  return lines;
}

}  // namespace tenon::capture
