// A progress line on the terminal during a long compilation.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "tenon/compile.h"

namespace tenon::driver {

// Nothing is printed if stderr is no terminal or Options::quiet is set. The line appears after `delay`.
class CompileNotice {
 public:
  CompileNotice(const Options& options, size_t ops, std::chrono::milliseconds delay = std::chrono::seconds(2));
  ~CompileNotice();
  CompileNotice(const CompileNotice&) = delete;
  CompileNotice& operator=(const CompileNotice&) = delete;

 private:
  void show(std::chrono::milliseconds delay);

  std::string what_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread thread_;  // Prints while the compilation runs.
};

}  // namespace tenon::driver
