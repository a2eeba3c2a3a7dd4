#include "driver/compile_notice.h"

#include <unistd.h>

namespace tenon::driver {

CompileNotice::CompileNotice(const Options& options, size_t ops, std::chrono::milliseconds delay) {
  if (options.quiet || !isatty(STDERR_FILENO)) return;
  what_ = "tenon: compiling '" + options.name + "', " + std::to_string(ops) + " ops";
  thread_ = std::thread([this, delay] { show(delay); });
}

CompileNotice::~CompileNotice() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void CompileNotice::show(std::chrono::milliseconds delay) {
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  std::unique_lock lock(mutex_);
  auto wait = [&](auto time) { return ended_.wait_for(lock, time, [&] { return has_ended_; }); };
  if (wait(delay)) return;
  do std::fprintf(stderr, "\r%s: %.0f s", what_.c_str(), seconds());
  while (!wait(std::chrono::seconds(1)));
  std::fprintf(stderr, "\r%s: took %.1f s\n", what_.c_str(), seconds());
}

}  // namespace tenon::driver
