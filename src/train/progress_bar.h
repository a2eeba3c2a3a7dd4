// Progress of a training on stderr: a bar on a terminal, plain lines otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tenon::train {

class ProgressBar {
 public:
  // `first` is the number of steps that an earlier run has done. One that is not shown prints nothing.
  ProgressBar(int64_t first, int64_t steps, bool is_shown);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Reports that `step` steps are done.
  void update(int64_t step, double loss);
  // Prints a line above the bar. On a terminal, a line about a regular event is not printed, because the bar shows the same.
  void print(const std::string& line);
  void print_event(const std::string& line);

  // Steps per second, and the estimated rest of the time as text ("1:05:30"); 0 and "?" before the second step.
  double rate() const;
  std::string time_left() const;

 private:
  void draw();
  void clear();

  bool is_shown_, is_terminal_;
  int64_t steps_, step_;
  double loss_ = 0;
  double seconds_per_step_ = 0;  // Moving average; 0 if it is not known yet.
  bool has_step_ = false, is_drawn_ = false;
  std::chrono::steady_clock::time_point last_step_, last_drawn_;
};

// Returns seconds as "m:ss" or "h:mm:ss".
std::string duration_text(double seconds);

}  // namespace tenon::train
