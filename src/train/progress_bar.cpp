#include "train/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tenon::train {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kWeightOfNewStep = 0.1;      // Weight of the newest step in the moving average of the time per step.
constexpr Seconds kTimeBetweenDrawings{0.1};  // Short enough to look steady, long enough to cost nothing.
constexpr int kDefaultColumns = 80, kMinBarColumns = 10, kMaxBarColumns = 40;

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kDefaultColumns;
}

}  // namespace

std::string duration_text(double seconds) {
  auto total = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  char text[48];
  if (total >= 3600) std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", total / 3600, total / 60 % 60, total % 60);
  else std::snprintf(text, sizeof text, "%lld:%02lld", total / 60, total % 60);
  return text;
}

ProgressBar::ProgressBar(int64_t first, int64_t steps, bool is_shown)
    : is_shown_(is_shown),
      is_terminal_(is_shown && isatty(STDERR_FILENO) == 1),
      steps_(steps),
      step_(first),
      last_step_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (is_drawn_) std::fputc('\n', stderr);
}

void ProgressBar::update(int64_t step, double loss) {
  auto now = std::chrono::steady_clock::now();
  double seconds = Seconds(now - last_step_).count();
  // The first step is not counted, because it may compile.
  if (has_step_) seconds_per_step_ += (seconds_per_step_ > 0 ? kWeightOfNewStep : 1) * (seconds - seconds_per_step_);
  has_step_ = true;
  last_step_ = now;
  step_ = step, loss_ = loss;
  if (!is_terminal_ || (step < steps_ && now - last_drawn_ < kTimeBetweenDrawings)) return;
  last_drawn_ = now;
  draw();
}

double ProgressBar::rate() const { return seconds_per_step_ > 0 ? 1 / seconds_per_step_ : 0; }

std::string ProgressBar::time_left() const {
  return seconds_per_step_ > 0 ? duration_text(static_cast<double>(steps_ - step_) * seconds_per_step_) : "?";
}

void ProgressBar::draw() {
  double part = steps_ > 0 ? static_cast<double>(step_) / static_cast<double>(steps_) : 1;
  char text[160];
  std::snprintf(text, sizeof text, " %lld/%lld, %.3g steps/s, loss %.4g, %s left", static_cast<long long>(step_),
                static_cast<long long>(steps_), rate(), loss_, time_left().c_str());
  std::string tail = text;
  int columns = std::clamp(terminal_columns() - static_cast<int>(tail.size()) - 8, kMinBarColumns, kMaxBarColumns);
  auto filled = static_cast<size_t>(std::lround(part * columns));
  std::string bar = std::string(filled, '#') + std::string(static_cast<size_t>(columns) - filled, '.');
  std::fprintf(stderr, "\r%3.0f %% [%s]%s\033[K", 100 * part, bar.c_str(), tail.c_str());
  std::fflush(stderr);
  is_drawn_ = true;
}

void ProgressBar::clear() {
  if (is_drawn_) std::fputs("\r\033[K", stderr);
  is_drawn_ = false;
}

void ProgressBar::print(const std::string& line) {
  if (!is_shown_) return;
  bool was_drawn = is_drawn_;
  clear();
  std::fprintf(stderr, "%s\n", line.c_str());
  if (was_drawn) draw();
}

void ProgressBar::print_event(const std::string& line) {
  if (!is_terminal_) print(line);
}

}  // namespace tenon::train
