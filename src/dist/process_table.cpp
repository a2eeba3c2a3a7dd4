#include "dist/process_table.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tenon::dist {

std::string place_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code ignored;
  return boot + "/" + std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

ProcessState process_state(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  size_t end_of_name = text.rfind(')');  // The name may contain blanks and parentheses.
  if (end_of_name == std::string::npos) return {};
  std::istringstream rest(text.substr(end_of_name + 1));
  ProcessState out;
  rest >> out.state;
  constexpr int kFieldsBeforeStartTime = 19;  // Fields 4 to 21 of proc(5), and the start time.
  for (int i = 0; i < kFieldsBeforeStartTime; ++i) rest >> out.start_time;
  return out;
}

}  // namespace tenon::dist
