// A line on the terminal while a compile takes long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "tenon/compile.h"

namespace tenon::driver {

// Where nothing is a terminal, or Options::quiet is set, it does nothing. `delay`: how long a compile may take in silence.
class CompileNotice {
 public:
  CompileNotice(const Options& options, size_t ops, std::chrono::milliseconds delay = std::chrono::seconds(2));
  ~CompileNotice();
  CompileNotice(const CompileNotice&) = delete;
  CompileNotice& operator=(const CompileNotice&) = delete;

 private:
  void tell(std::chrono::milliseconds delay);

  std::string what_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread thread_;  // it tells while the compile runs
};

}  // namespace tenon::driver
