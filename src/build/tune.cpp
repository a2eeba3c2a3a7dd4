#include "build/tune.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "runtime/tuner.h"

namespace tenon::build {
namespace {

// A progress line on the terminal, shown after one second.
class Progress {
 public:
  Progress(size_t all, const char* what) : all_(all), what_(what), is_shown_(isatty(STDERR_FILENO)) {}
  ~Progress() {
    if (was_shown_) std::fprintf(stderr, "\n");
  }
  void step(size_t by = 1) {
    done_ += by;
    if (!is_shown_ || std::chrono::steady_clock::now() - start_ < std::chrono::seconds(1)) return;
    was_shown_ = true;
    std::fprintf(stderr, "\rtenon: %zu of %zu %s", done_, all_, what_);
  }

 private:
  size_t all_, done_ = 0;
  const char* what_;
  bool is_shown_, was_shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void tune(const runtime::Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars, double seconds) {
  Progress progress(100, "% of max_autotune's trials");
  size_t shown = 0;
  runtime::tune(interpreter, inputs, scalars, seconds, [&](double done) {
    auto percent = static_cast<size_t>(100 * done);
    progress.step(percent - std::exchange(shown, percent));
  });
}

}  // namespace tenon::build
