#include "base/warn.h"

#include <cstdio>
#include <mutex>
#include <set>

#include "base/process.h"

namespace tenon {

void warn(const std::string& text) {
  std::string line = "tenon: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool warn_once(const std::string& key, const std::string& text) {
  static std::mutex mutex;
  static auto* printed = new std::set<std::string>;  // Never destroyed, because destructors of other statics may warn.
  {
    ForkSafeLock lock(mutex);
    if (!printed->insert(key).second) return false;
  }
  warn(text);
  return true;
}

}  // namespace tenon
